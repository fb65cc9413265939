// The form that takes a token, where the server does not know the reader yet.

import { ApiError, login } from "./api.js";
import { byId } from "./dom.js";

/** @param {() => void} entered */
export function startLogin(entered) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("login"));
  const field = /** @type {HTMLInputElement} */ (byId("token"));
  const button = /** @type {HTMLButtonElement} */ (byId("login-button"));
  const cluster = /** @type {HTMLInputElement} */ (byId("token-cluster"));
  const problem = byId("login-problem");
  // Without a login there is nothing to show.
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  byId("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const token = field.value.trim();
    if (!token) {
      problem.textContent = "Paste a token first.";
      return;
    }
    button.disabled = true;
    try {
      await login(token, cluster.value.trim());
      field.value = "";
      problem.textContent = "";
      dialog.close();
      entered();
    } catch (error) {
      problem.textContent = describe(error, cluster.value.trim());
      // The token may be one of a followed cluster.
      const details = cluster.closest("details");
      if (details && error instanceof ApiError && [401, 403].includes(error.status)) {
        details.open = true;
      }
      field.select();
    } finally {
      button.disabled = false;
    }
  });
  return {
    /** @param {string} message What the server said: some are entered by a link alone.
     * @param {boolean} lost Whether there was a session. */
    open(message, lost) {
      if (dialog.open) return;
      const byLink = message.startsWith("open the link");
      const used = !lost && " A link that was used shows its session in the browser that used it.";
      const said = `${message[0]?.toUpperCase() ?? ""}${message.slice(1)}.`;
      problem.textContent = [
        lost && "The session is over: the server was restarted, it expired, or you logged out.",
        byLink ? `${said}${used || ""}` : lost && "Log in again.",
      ].filter(Boolean).join(" ");
      byId("login-fields").hidden = byLink;
      byId("login-text").hidden = byLink;
      dialog.showModal();
      field.focus();
    },
    isOpen: () => dialog.open,
  };
}

/**
 * @param {unknown} error
 * @param {string} cluster The cluster that was named, if one was.
 */
function describe(error, cluster) {
  const { status, message } = error instanceof ApiError ? error : { status: 0, message: "" };
  if (status === 401) {
    return cluster
      ? `No cluster "${cluster}" accepts this token. Is the name right, and the token whole?`
      : "The server does not accept this token. Is it whole, and not expired? If it is one of a " +
        "followed cluster, name the cluster.";
  }
  if (status === 403) return `The token is known, but it may not do this: ${message}`;
  if (status === 429) return "Too many attempts. Wait a moment and try again.";
  if (status === 0) return "The server does not answer. Try again in a moment.";
  return `It did not work: ${message}`;
}
