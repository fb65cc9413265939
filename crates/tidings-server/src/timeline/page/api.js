// Requests to the server. One answer or one `ApiError`; nothing is retried here.

const BASE = "/timeline/api/";

/** A failed request. `status` is 0 if the server did not answer. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Whether a retry would fail, too; it may succeed if the server was away or busy.
 * @param {ApiError} error */
export const isFinal = ({ status }) =>
  status >= 400 && status < 500 && status !== 408 && status !== 429;

/** @param {unknown} error */
export const isAbort = (error) => error instanceof DOMException && error.name === "AbortError";

/** Requests that were begun early, by their paths, with the bodies of their answers and when these
 * came.
 * @type {Map<string, {address: string, control: AbortController,
 *   answer: Promise<{body: any, at: number}>}>} */
const begun = new Map();

/** Begins a request. The first `get` of its path has the answer if it asks for the same.
 * @param {string} path @param {URLSearchParams} [params] */
export function begin(path, params) {
  const address = url(path, params);
  const control = new AbortController();
  const answer = ask(address, { signal: control.signal })
    .then(async (response) => ({ body: await response.json(), at: Date.now() }));
  answer.catch(() => {}); // handled by whoever gets it
  begun.set(path, { address, control, answer });
}

/**
 * @template T
 * @param {string} path
 * @param {URLSearchParams} [params]
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export async function get(path, params, signal) {
  const address = url(path, params);
  const early = begun.get(path);
  begun.delete(path);
  if (early?.address === address) {
    signal?.addEventListener("abort", () => early.control.abort());
    const { body, at } = await early.answer;
    body.now += Date.now() - at; // it may have waited for the rest of the page
    return body;
  }
  early?.control.abort();
  const response = await ask(address, { signal });
  return response.json();
}

/** Requests an answer that is read as a stream.
 * @param {string} path @param {URLSearchParams} params @param {AbortSignal} signal */
export async function stream(path, params, signal) {
  const response = await ask(url(path, params), { signal });
  if (!response.body) throw new ApiError(0, "the answer has no body");
  return response.body;
}

/** @param {string} token @param {string} cluster The cluster that knows the token, or "". */
export async function login(token, cluster) {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify(cluster ? { token, cluster } : { token });
  await ask("/timeline/login", { method: "POST", headers, body });
}

export async function logout() {
  await ask("/timeline/logout", { method: "POST" });
}

/** @param {string} path @param {URLSearchParams} [params] */
export function url(path, params) {
  const query = params?.toString();
  return query ? `${BASE}${path}?${query}` : BASE + path;
}

/** Parameters with the terms of a filter.
 * @param {Record<string, string|number>} plain @param {string[]} filters */
export function parameters(plain, filters) {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(plain)) params.set(key, String(value));
  for (const one of filters) params.append("filter", one);
  return params;
}

/** @param {string} address @param {RequestInit} init */
async function ask(address, init) {
  let response;
  try {
    response = await fetch(address, { credentials: "same-origin", redirect: "error", ...init });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0, "the server does not answer");
  }
  if (!response.ok) throw new ApiError(response.status, await reason(response));
  return response;
}

/** The message of a Status, or the plain status line. @param {Response} response */
async function reason(response) {
  try {
    const status = JSON.parse((await response.text()).slice(0, 65_536));
    if (typeof status.message === "string") return status.message;
  } catch {
    // No Status, but a proxy's page, for example.
  }
  return `the server answered ${response.status} ${response.statusText}`.trim();
}
