// What every view uses: elements, times, and calls of the console's API.
// Text reaches the page as text nodes only, so a name with markup in it stays a name.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

// The server's clock decides, because the times of the records are of the deployment's clocks.
let ahead = 0;
export const setNow = (now) => { ahead = now - Date.now(); };
export const now = () => Date.now() + ahead;

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const at = UNITS.findIndex(([size]) => seconds >= size);
  if (at < 0) return "0 s";
  const [size, unit] = UNITS[at];
  const rest = Math.floor((seconds % size) / (UNITS[at + 1]?.[0] ?? 1));
  const whole = Math.floor(seconds / size);
  return rest && whole < 10 && at < 3 ? `${whole} ${unit} ${rest} ${UNITS[at + 1][1]}` : `${whole} ${unit}`;
}

const relative = (at) => (at > now() ? `in ${duration(at - now())}` : `${duration(now() - at)} ago`);
const utc = (at) => new Date(at).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");

// `form` is "age" or "relative". All of them tick once a second, see `tick`.
export function time(at, form = "relative") {
  const element = h("time", { datetime: new Date(at).toISOString(), title: utc(at), "data-form": form });
  element.dataset.at = at;
  show(element);
  return element;
}

function show(element) {
  const at = Number(element.dataset.at);
  const text = element.dataset.form === "age" ? duration(now() - at) : relative(at);
  if (element.textContent !== text) element.textContent = text;
}

export function tick() {
  for (const element of document.querySelectorAll("time[data-at]")) show(element);
}

// The time of a day in UTC, with the day where that is not today.
export function clock(at) {
  const text = new Date(at).toISOString();
  const isToday = text.slice(0, 10) === new Date(now()).toISOString().slice(0, 10);
  const day = new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  return isToday ? [text.slice(11, 19)] : [text.slice(11, 19), h("small", {}, day)];
}

const STATES = {
  pending: "pending", in_progress: "in progress", completed: "completed",
  failed_retryable: "may run again", unknown: "unknown", expired: "expired",
};

export const pill = (state) => h("span", { class: `pill ${state}` }, STATES[state] ?? state);

export function button(key, text, onclick, kind = "") {
  return h("button", { type: "button", "data-key": key, class: kind, onclick }, text);
}

export function block(title, text, ...content) {
  return h("section", { class: "block" }, h("h2", {}, title), text && h("p", { class: "note" }, text), ...content.filter(Boolean));
}

export function table(head, lines, none) {
  if (!lines.length) return h("p", { class: "empty" }, none);
  return h("div", { class: "scroll" }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, head.map((text) => h("th", {}, text)))),
    h("tbody", {}, lines.map((line) => h("tr", {}, line.map((cell, at) => h("td", { "data-head": head[at] }, cell)))))));
}

// Replaces the children of `parent`, and gives the focus back to what had it, by its `data-key`.
export function refill(parent, ...children) {
  const key = parent.contains(document.activeElement) && document.activeElement.dataset.key;
  parent.replaceChildren(...children.flat().filter(Boolean));
  if (key) parent.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

export function say(text) {
  byId("status").textContent = text;
  clearTimeout(say.later);
  say.later = setTimeout(() => { byId("status").textContent = ""; }, 8000);
}

let token = "";
export const useToken = (value) => { token = value; };

// Answers with the JSON of the API, or throws an `Error` whose message can be shown.
export async function api(path, given) {
  const options = { headers: { "X-Oncekey-Console": token }, cache: "no-store" };
  if (given !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(given);
  }
  let response;
  try {
    response = await fetch(`api/${path}`, options);
  } catch {
    throw new Error("The console does not answer. Has its command ended?");
  }
  const said = await response.json();
  if (!response.ok) throw Object.assign(new Error(said.message), { status: response.status });
  return said;
}

// A dialog with a form. `fields` are {name, label, kind, value, hint, options, optional}. It stays
// open, with the refusal in it, until `act` has succeeded.
export function ask({ title, text, fields = [], action, danger = false, act }) {
  const dialog = byId("act");
  const fault = h("p", { class: "fault", role: "alert", hidden: true });
  const form = h("form", { novalidate: true },
    h("h2", { id: "act-title" }, title),
    text && h("p", {}, text),
    fields.map(field),
    fault,
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      h("button", { type: "submit", class: danger ? "danger" : "main" }, action)));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(form));
    const missing = fields.find(({ name, optional }) => !optional && !given[name].trim());
    if (missing) {
      fault.textContent = `Fill in: ${missing.label}`;
      fault.hidden = false;
      form.elements[missing.name].focus();
      return;
    }
    const submit = form.querySelector("[type=submit]");
    submit.disabled = true;
    try {
      const { message } = await act(given);
      dialog.close();
      say(message);
    } catch (error) {
      fault.textContent = error.message;
      fault.hidden = false;
      submit.disabled = false;
    }
  });
  dialog.replaceChildren(form);
  dialog.showModal();
  (form.querySelector("textarea, input, select") ?? form.querySelector("[type=submit]")).focus();
}

function field({ name, label, kind = "text", value = "", hint, options }) {
  const attributes = { name, id: `field-${name}`, "aria-describedby": hint ? `hint-${name}` : null };
  let input;
  if (kind === "select") {
    input = h("select", attributes, options.map(([key, text]) => h("option", { value: key }, text)));
  } else if (kind === "textarea") {
    input = h("textarea", { ...attributes, rows: 5, spellcheck: "false" }, value);
  } else {
    input = h("input", { ...attributes, type: kind, value, autocomplete: "off" });
  }
  return h("div", { class: "field" },
    h("label", { for: `field-${name}` }, label), input,
    hint && h("small", { id: `hint-${name}` }, hint));
}
