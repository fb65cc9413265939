// Asks ten questions about captured incidents of two MCP servers over one server with 25,000
// events: `tidings mcp`, and kubernetes-mcp-server. Prints the bytes of the answers, the calls, and
// whether the answer has the fact, as one JSON line for each question.
//
// node benches/agents/questions.mjs TIDINGS KUBERNETES_MCP_SERVER CAPTURES [ENCODING]
//
// ENCODING is a module of gpt-tokenizer, an npm package, such as esm/encoding/o200k_base.js. With it
// tokens are counted, too. `cargo xtask bench questions` fetches both packages, and makes the table
// in docs/benchmarks.md.
//
// CAPTURES is a folder of real events, one JSON object a line (.jsonl), with these incidents.

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [tidings, peer, captures, module] = process.argv.slice(2);
const EVENTS = 25_000;
const PORT = "17445";
const SINCE = "4000d";

// A question: what an agent asks of each server, and the words that the answer must have.
const QUESTIONS = [
  ["why does this pod not start?",
    [["object", { kind: "Pod", name: "no-image-deployment-849c4c4958-rxqmt",
      namespace: "message-image-pull-fail" }]],
    [["events_list", { namespace: "message-image-pull-fail" }]],
    ["certificate is not valid for any names"]],
  ["which volume cannot be mounted, and how often was it tried?",
    [["search", { reason: "FailedMount", namespace: "message-pod-init-crashloop-backoff" }]],
    [["events_list", { namespace: "message-pod-init-crashloop-backoff" }]],
    ["hostPath type check failed", "490"]],
  ["which jobs gave up?",
    [["search", { reason: "BackoffLimitExceeded" }]],
    [["events_list", {}]],
    ["oom-kill-job3"]],
  ["which object has the most warnings, and how many?",
    [["top", { by: "object", filter: "type:Warning", limit: 10 }]],
    [["events_list", {}]],
    ["civo-csi-node-62s5w", "33211"]],
  ["which pods could not be scheduled, and why?",
    [["search", { reason: "FailedScheduling", namespace: "kube-system", text: "Insufficient" }]],
    [["events_list", { namespace: "kube-system" }]],
    ["kube-dns-545bc4bfd4-t4lzx", "Insufficient cpu"]],
  ["why does the autoscaler not scale?",
    [["search", { kind: "HorizontalPodAutoscaler", type: "Warning", namespace: "default" }]],
    [["events_list", { namespace: "default" }]],
    ["missing request for cpu"]],
  ["what troubles openshift-multus most?",
    [["top", { namespace: "openshift-multus" }]],
    [["events_list", { namespace: "openshift-multus" }]],
    ["NetworkNotReady"]],
  ["what is wrong with this node?",
    [["object", { kind: "Node", name: "primary-node" }]],
    [["events_list", { namespace: "default" }]],
    ["InvalidDiskCapacity"]],
  ["which controllers wrote the most?",
    [["top", { by: "controller", limit: 10 }]],
    [["events_list", {}]],
    ["kubelet"]],
  ["what changed before the first pod sandbox failed?",
    [["search", { reason: "FailedCreatePodSandBox", text: "cilium", limit: 1 }], ["event", "id"]],
    [["events_list", { namespace: "kube-system" }]],
    ["BackOff", "cilium-sqmvj"]],
];

const encoding = module && await import(pathToFileURL(module));

// A text that looks like a special token counts as text.
const PLAIN = { disallowedSpecial: new Set() };

// The tokens of a text, if an encoding is given.
function tokensOf(text) {
  return encoding ? { tokens: encoding.countTokens(text, PLAIN) } : {};
}

// A client of an MCP server on standard input and output.
class Client {
  constructor(command, args) {
    this.process = spawn(command, args, { stdio: ["pipe", "pipe", "ignore"] });
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
    this.id = 0;
  }

  async ask(method, params) {
    const id = ++this.id;
    this.process.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    for (;;) {
      const { value, done } = await this.lines.next();
      if (done) throw new Error(`${method}: the server has ended`);
      const answer = JSON.parse(value);
      if (answer.id === id) return answer;
    }
  }

  async begin() {
    const clientInfo = { name: "benchmark", version: "1" };
    const hello = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
    await this.ask("initialize", hello);
    const begun = { jsonrpc: "2.0", method: "notifications/initialized" };
    this.process.stdin.write(`${JSON.stringify(begun)}\n`);
    const { result } = await this.ask("tools/list", {});
    const text = JSON.stringify(result);
    return { bytes: Buffer.byteLength(text), ...tokensOf(text) };
  }

  // The text of the answers to some calls, and the milliseconds they took.
  async call(calls, range) {
    let text = "";
    const began = performance.now();
    for (const [name, given] of calls) {
      const id = text.match(/id=(\S+)/)?.[1];
      const args = given === "id" ? { id } : { ...given, ...range };
      const { result, error } = await this.ask("tools/call", { name, arguments: args });
      text += error ? JSON.stringify(error) : result.content.map((part) => part.text).join("");
    }
    return [text, performance.now() - began];
  }

  end() {
    this.process.stdin.end();
    this.process.kill();
  }
}

// Events of every day, in the namespaces of a shop.
function everyday(count) {
  const reasons = ["Scheduled", "Pulled", "Created", "Started"];
  const at = (seconds) => new Date(1.77e12 + seconds * 1000).toISOString().replace(".000", "");
  const event = (number) => {
    const namespace = `shop-${number % 40}`;
    const pod = `report-${Math.floor(number / 4)}-b2c4d`;
    const time = at(number * 7);
    return JSON.stringify({
      kind: "Event", apiVersion: "v1",
      metadata: { name: `${pod}.${number.toString(16)}`, namespace },
      involvedObject: { kind: "Pod", namespace, name: pod },
      reason: reasons[number % 4], message: `${reasons[number % 4]} ${pod}`, type: "Normal",
      source: { component: "kubelet", host: "node-1" },
      firstTimestamp: time, lastTimestamp: time, count: 1,
    });
  };
  return Array.from({ length: count }, (_, number) => event(number)).join("\n");
}

const folder = mkdtempSync(join(tmpdir(), "tidings-agents-"));
const data = join(folder, "data");
const kubeconfig = join(data, "kubeconfig");
const serve = spawn(tidings, ["serve", "--data-dir", data, "--secure-port", PORT,
  "--event-ttl", "24h"], { stdio: ["ignore", "ignore", "pipe"] });
try {
  for await (const line of createInterface({ input: serve.stderr })) {
    if (line.includes("serving")) break;
  }
  const load = (file) => {
    const run = spawnSync(tidings, ["import", "--kubeconfig", kubeconfig, file]);
    const read = `${run.stdout}${run.stderr}`.match(/(\d+) created/);
    if (!read) throw new Error(`import: ${run.stderr}`);
    return Number(read[1]);
  };
  const captured = load(captures);
  const filler = join(folder, "everyday.jsonl");
  writeFileSync(filler, everyday(EVENTS - captured));
  const events = captured + load(filler);
  const ours = new Client(tidings, ["mcp", "--kubeconfig", kubeconfig]);
  const theirs = new Client(peer, ["--kubeconfig", kubeconfig, "--read-only"]);
  const tools = [await ours.begin(), await theirs.begin()];
  console.log(JSON.stringify({ events, captured, tools }));
  for (const [question, us, them, words] of QUESTIONS) {
    const answers = [];
    for (const [client, calls, range] of [[ours, us, { since: SINCE }], [theirs, them, {}]]) {
      const [text, millis] = await client.call(calls, range);
      answers.push({
        bytes: Buffer.byteLength(text), ...tokensOf(text), calls: calls.length,
        // YAML breaks long lines.
        fact: words.every((word) => text.replace(/\s+/g, " ").includes(word)), millis: Math.round(millis),
      });
    }
    console.log(JSON.stringify({ question, tidings: answers[0], peer: answers[1] }));
  }
  ours.end();
  theirs.end();
} finally {
  serve.kill();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
}
