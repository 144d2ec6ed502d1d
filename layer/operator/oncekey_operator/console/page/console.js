// The console's views: the list of operations, one operation, the messages.

import {
  api, ask, block, button, byId, clock, h, now, pill, refill, setNow, table, tick, time, useToken,
} from "./parts.js";
import { end, settle } from "./settling.js";
import { showWorkshop } from "./workshop.js";

const page = { session: null, view: "", reference: "", rows: [], shown: "", unknown: -1, busy: false, scanned: false };

// --- the way about ---------------------------------------------------------------------------

function follow() {
  const [view, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  page.view = ["messages", "workshop"].includes(view) ? view : "operations";
  if (page.view === "workshop" && !page.session.workshop) page.view = "operations";
  const left = page.reference;
  page.reference = page.view === "operations" ? decodeURIComponent(rest.join("/")) : "";
  for (const name of ["operations", "messages", "workshop"]) byId(name).hidden = name !== page.view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === page.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byId("operations").classList.toggle("open", Boolean(page.reference));
  if (!page.reference) byId("detail").hidden = true;
  page.shown = "";
  for (const row of byId("rows").children) row.classList.toggle("chosen", row.dataset.reference === page.reference);
  if (left && !page.reference && page.view === "operations") {
    // Whoever closes an operation goes on at its line.
    document.querySelector(`#rows tr[data-reference="${CSS.escape(left)}"] a`)?.focus();
  }
  refresh();
}

async function refresh({ byTimer = false } = {}) {
  if (page.busy) { page.again ||= !byTimer; return; }
  page.busy = true;
  try {
    if (page.view === "operations") {
      // A scan of a deployed table costs money: it is made when a person asks for it.
      if (!byTimer || !page.scanned) await showList();
      if (page.reference) await showDetail();
    } else if (page.view === "messages") await showMessages();
    else await showWorkshop(byId("workshop"), refresh);
    trouble("");
  } catch (error) {
    trouble(error.message);
  } finally {
    page.busy = false;
  }
  if (page.again) { page.again = false; await refresh(); }
}

function trouble(text) {
  const place = byId("trouble");
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !text;
}

// --- the list --------------------------------------------------------------------------------

async function showList() {
  const form = new FormData(byId("filter"));
  const wanted = new URLSearchParams();
  for (const [name, value] of form) if (value) wanted.set(name, name === "settled" ? "1" : value.trim());
  const said = await api(`operations?${wanted}`);
  page.scanned = said.is_scanned && !page.session.workshop;
  setNow(said.now);
  page.rows = said.rows;
  const body = byId("rows");
  const lines = new Map([...body.children].map((line) => [line.dataset.reference, line]));
  const listed = new Set(said.rows.map((row) => row.reference));
  // First, because a line that is moved loses the focus.
  for (const [reference, line] of lines) if (!listed.has(reference)) line.remove();
  said.rows.forEach((row, at) => {
    const line = lines.get(row.reference) ?? newLine(row);
    fillLine(line, row);
    if (body.children[at] !== line) body.insertBefore(line, body.children[at] ?? null);
  });
  summarise(said, wanted);
}

function newLine(row) {
  const link = h("a", { href: `#/operations/${encodeURIComponent(row.reference)}` }, row.operation);
  const line = h("tr", {},
    h("td", { class: "state" }),
    h("td", { class: "operation" }, link),
    h("td", { class: "tenant" }, row.tenant),
    h("td", { class: "number attempt" }),
    h("td", { class: "number age" }, time(row.created_at, "age")));
  line.dataset.reference = row.reference;
  return line;
}

function fillLine(line, row) {
  line.classList.toggle("chosen", row.reference === page.reference);
  const [state, , , attempt] = line.children;
  const said = [row.state, ...row.remarks].join();
  if (state.dataset.said !== said) {
    state.dataset.said = said;
    state.replaceChildren(pill(row.state), ...row.remarks.map((remark) => h("span", { class: "remark" }, remark)));
  }
  attempt.textContent = row.attempt;
}

function summarise(said, wanted) {
  const settled = said.is_scanned;  // the index has open operations only
  const number = said.rows.length;
  const filtered = ["state", "operation", "tenant"].some((name) => wanted.has(name));
  const kind = settled ? "operations" : "open operations";
  byId("count").textContent = `${number} ${number === 1 ? kind.slice(0, -1) : kind}`
    + (said.is_whole ? "" : ", and there are more: narrow the filter")
    + (page.scanned ? ". Read once: press r to read the table again." : "");
  const none = byId("none");
  none.hidden = number > 0;
  none.textContent = filtered ? "No operation fits the filter."
    : settled ? "There are no operations yet." : "Nothing is open. Every operation has ended.";
  const unknown = said.rows.filter((row) => row.state === "unknown").length;
  if (page.unknown >= 0 && unknown !== page.unknown && !filtered) {
    byId("status").textContent = `${unknown} unknown`;
  }
  page.unknown = filtered ? page.unknown : unknown;
  document.title = unknown ? `(${unknown}) oncekey console` : "oncekey console";
}

// --- one operation ---------------------------------------------------------------------------

async function showDetail() {
  const detail = byId("detail");
  const reference = page.reference;
  let one;
  try {
    one = await api(`operations/${encodeURIComponent(reference)}`);
  } catch (error) {
    if (error.status !== 404) throw error;
    one = { gone: error.message };
  }
  if (reference !== page.reference) return;
  const { now: at, ...lasting } = one;
  const shown = JSON.stringify(lasting);
  if (shown === page.shown) return;
  const isNew = !page.shown;
  page.shown = shown;
  detail.hidden = false;
  if (one.gone) refill(detail, closeLink(), h("p", { class: "empty" }, one.gone));
  else refill(detail, closeLink(), ...heading(one), actions(one), story(one), gaps(one), facts(one), revealed(one));
  if (isNew && !detail.contains(document.activeElement)) detail.focus({ preventScroll: true });
}

const closeLink = () => h("a", { class: "close", href: "#/operations", "data-key": "close", "aria-label": "Close the operation" }, "Close");

function heading(one) {
  return [
    h("h2", {}, one.operation),
    h("p", { class: "line" }, pill(one.state), one.remarks.map((remark) => h("span", { class: "remark" }, remark)),
      h("span", {}, one.tenant), h("span", { class: "soft" }, `attempt ${one.attempt}`)),
    one.last_error && h("p", { class: "reason" }, "Reason: ", h("code", {}, one.last_error)),
    h("div", { class: "next" },
      h("p", {}, sentence(one.next.client)),
      one.next.reconciler && one.due_at && h("p", {}, "The reconciler visits it ", time(one.due_at), `: it ${one.next.reconciler}.`),
      one.command && h("p", {}, "Look at the provider what became of it, and then settle it.")),
  ];
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

function actions(one) {
  const buttons = [];
  if (page.session.changes && one.command) {
    buttons.push(button("settle-completed", "Settle as completed…", () => settle(one, true, refresh)));
    buttons.push(button("settle-not", "Settle as not executed…", () => settle(one, false, refresh)));
  } else if (page.session.changes && one.may_end) {
    buttons.push(button("end", "End for good…", () => end(one, refresh)));
  }
  if (page.session.workshop) {
    buttons.push(button("repeat", "Repeat the request", async () => {
      await act(() => api("workshop", { do: "repeat", reference: one.reference }));
    }));
  }
  return buttons.length ? h("div", { class: "buttons left" }, buttons) : null;
}

async function act(call) {
  try {
    const { message } = await call();
    byId("status").textContent = message;
  } catch (error) {
    trouble(error.message);
    return;
  }
  refresh();
}

function story(one) {
  const items = one.timeline.map((event) => {
    const later = event.at_ms > now();
    return h("li", { class: `${event.tone}${later ? " later" : ""}` },
      h("div", { class: "when" }, clock(event.at_ms)),
      h("div", {}, h("strong", {}, event.title), time(event.at_ms),
        event.source === "record" ? null : h("span", { class: "source" }, event.source),
        event.detail && h("p", {}, event.detail)));
  });
  return h("section", {}, h("h3", {}, "Its life ", h("small", {}, "UTC")), h("ol", { class: "story" }, items));
}

function gaps(one) {
  if (!one.not_known.length) return null;
  return h("section", { class: "gaps" }, h("h3", {}, "Not in the record"), h("ul", {}, one.not_known.map((gap) => h("li", {}, gap))));
}

function facts(one) {
  const pairs = [
    ["Effects", one.effects],
    ["Finished steps", one.steps.join(", ") || "none"],
    ["Reconciler’s turns", one.reconcile_attempts],
    ["Operation id", h("code", {}, one.operation_id)],
    ["Reference", h("code", {}, one.reference)],
    ...(one.command ? [["By command", h("code", {}, one.command)]] : []),
  ];
  return h("section", {}, h("h3", {}, "Record"), h("dl", { class: "facts" },
    pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}

function revealed(one) {
  if (!one.revealed) return null;
  return h("section", {}, h("h3", {}, "Revealed"), h("pre", {}, JSON.stringify(one.revealed, null, 2)));
}

// --- messages --------------------------------------------------------------------------------

async function showMessages() {
  const said = await api("messages");
  setNow(said.now);
  const { now: at, ...lasting } = said;
  const shown = JSON.stringify(lasting);
  if (shown === page.shown) return;
  page.shown = shown;
  const changes = page.session.changes;
  refill(byId("messages"),
    block("Outbox", "A message is here until the queue has it. One that was set aside is not sent until somebody requeues it.",
      table(["Topic", "Operation", "Tenant", "Age", "State", ""], said.outbox.map((one) => [
        one.topic, one.operation, one.tenant, time(one.created_at, "age"),
        one.set_aside_at ? h("span", {}, h("span", { class: "pill unknown" }, "set aside"), " ", h("span", { class: "soft" }, one.reason)) : "waits",
        one.set_aside_at && changes ? button(`requeue-${one.id}`, "Requeue…", () => because("Requeue the message", "Remove the cause first. The relay sends it with its next run.", "requeue", { id: one.id })) : "",
      ]), "The outbox is empty: every message was sent.")),
    block("Queues", "A dead letter is a message that the queue gave up delivering.",
      table(["Queue", "Waiting", "In flight", "Dead letters", ""], said.queues.map((one) => [
        one.name, one.waiting, one.in_flight,
        one.dead_letters ? h("span", { class: "pill unknown" }, `about ${one.dead_letters}`) : 0,
        one.dead_letters && changes ? button(`redrive-${one.name}`, "Redrive…", () => because("Redrive the dead letters", "All of them are delivered again, not only those that are counted here: the number is SQS’s estimate. Workers recognise repeats.", "redrive", { queue: one.name })) : "",
      ]), "No queue is known here.")),
    block("Paused", "A new key of what is paused is answered 503. Existing keys get their answers.",
      table(["What", "Since", "Reason", ""], said.pauses.map((one) => [
        one.kind === "all" ? "everything" : `${one.kind} ${one.name}`, time(one.since), one.reason,
        changes ? button(`resume-${one.kind}-${one.name}`, "Resume…", () => because("Resume", "New keys run again.", "resume", { kind: one.kind, name: one.name })) : "",
      ]), "Nothing is paused."),
      changes && h("div", { class: "buttons left" }, button("pause", "Pause…", pause))));
}

function because(title, text, action, given) {
  ask({
    title, text, action: title.split(" ")[0],
    fields: [{ name: "reason", label: "Reason", hint: "It is written to the audit table with your name." }],
    act: async ({ reason }) => { const said = await api(action, { ...given, reason }); refresh(); return said; },
  });
}

function pause() {
  ask({
    title: "Pause new work",
    text: "New keys are answered 503 with your reason. Queued work waits.",
    action: "Pause", danger: true,
    fields: [
      { name: "kind", label: "What", kind: "select", options: [["operation", "an operation"], ["tenant", "a tenant"], ["all", "everything"]] },
      { name: "name", label: "Name", optional: true, hint: "Of the operation or the tenant." },
      { name: "reason", label: "Reason", hint: "Clients see it, and the audit table has it." },
    ],
    act: async (given) => { const said = await api("pause", given); refresh(); return said; },
  });
}

// --- keys ------------------------------------------------------------------------------------

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "Escape" && typing) {
    event.preventDefault(); // A search field would be emptied.
    event.target.blur();
    return;
  }
  if (typing) return;
  const links = [...document.querySelectorAll("#rows a")];
  const at = links.findIndex((link) => link === document.activeElement || link.closest("tr").classList.contains("chosen"));
  const keys = {
    j: () => links[Math.min(at + 1, links.length - 1)]?.focus(),
    k: () => links[Math.max(at - 1, 0)]?.focus(),
    "/": () => byId("filter").elements.operation.focus(),
    u: () => {
      const state = byId("filter").elements.state;
      state.value = state.value === "unknown" ? "" : "unknown";
      refresh();
    },
    r: refresh,
    "?": () => byId("help").showModal(),
    1: () => { location.hash = "#/operations"; },
    2: () => { location.hash = "#/messages"; },
    3: () => { location.hash = page.session.workshop ? "#/workshop" : "#/operations"; },
    Escape: () => { if (page.reference) close(); },
  };
  const key = keys[event.key];
  if (key) { event.preventDefault(); key(); }
}

function close() {
  location.hash = "#/operations";
}

// --- the start -------------------------------------------------------------------------------

async function start() {
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem("token", given[1]);
    history.replaceState(null, "", "#/operations");
  }
  useToken(sessionStorage.getItem("token") ?? "");
  try {
    page.session = await api("session");
  } catch (error) {
    trouble(error.message);
    return;
  }
  if (page.session.needs_token) {
    trouble("This console wants the whole address that its command printed, with the token at its end.");
    return;
  }
  useToken(page.session.token);
  byId("place").textContent = page.session.place;
  byId("mode").textContent = page.session.changes ? "changes allowed" : "read-only";
  byId("mode").classList.toggle("calm", !page.session.changes);
  document.querySelector("nav a[data-view=workshop]").hidden = !page.session.workshop;
  if (page.session.workshop) byId("filter").elements.settled.checked = true;
  byId("filter").addEventListener("input", () => refresh());
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  addEventListener("hashchange", follow);
  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  follow();
  setInterval(tick, 1000);
  setInterval(() => { if (!document.hidden) refresh({ byTimer: true }); }, page.session.refresh_ms);
}

start();
