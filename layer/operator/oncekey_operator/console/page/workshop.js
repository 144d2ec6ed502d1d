// What only the local runtime has: requests to send, processes to kill, faults to inject.

import { api, ask, byId, h, refill, say } from "./parts.js";

let shown = "";

export async function showWorkshop(place, refresh) {
  const state = await api("workshop");
  const text = JSON.stringify(state);
  if (text === shown && place.childElementCount) return;
  shown = text;
  const run = (given) => async () => {
    try {
      say((await api("workshop", given)).message);
    } catch (error) {
      byId("trouble").textContent = error.message;
      byId("trouble").hidden = false;
      return;
    }
    await refresh();
  };
  refill(place,
    block("Send a request", "It gets a new key and a token of the tenant. Repeat it from its operation.",
      h("div", { class: "buttons left" }, state.routes.map((route) =>
        control(`send-${route.name}`, `${route.name}…`, () => send(route, refresh)))),
      state.last_answer ? h("pre", { "aria-label": "The last answer" }, state.last_answer) : null),
    block("Kill a process", "SIGKILL, as when Lambda loses a host. A request that it runs gets 500.",
      h("ul", { class: "lines" }, state.processes.map((one) => h("li", {},
        h("span", { class: `dot ${one.busy ? "busy" : ""}` }),
        h("span", {}, one.function), h("span", { class: "soft" }, `pid ${one.pid}, ${one.busy ? "runs a request" : "idle"}`),
        control(`kill-${one.pid}`, "Kill", run({ do: "kill", pid: one.pid }), one.busy ? "danger" : ""))))),
    ...state.faults.map((group) => block(group.title, group.text,
      h("ul", { class: "lines" }, group.faults.map((fault) => h("li", {}, ...faultLine(group.at, fault, run)))))),
    state.schedules.length ? block("Run now", "Calls a function as its schedule does.",
      h("div", { class: "buttons left" }, state.schedules.map((name) =>
        control(`run-${name}`, name, run({ do: "run", function: name }))))) : null);
}

function send(route, refresh) {
  ask({
    title: route.name, action: "Send",
    fields: [
      { name: "path", label: "Path", value: route.name.split(" ")[1] },
      { name: "tenant", label: "Tenant", value: "acme" },
      { name: "body", label: "Body", kind: "textarea", value: route.body, optional: true },
    ],
    act: async (given) => {
      const said = await api("workshop", { do: "send", route: route.name, ...given });
      refresh();
      return said;
    },
  });
}

function faultLine(at, fault, run) {
  const key = `${at}-${fault.name}`;
  const set = (value) => run({ do: "fault", at, name: fault.name, value });
  const label = h("span", { id: `label-${key}` }, fault.label);
  if (fault.kind === "switch") {
    return [label, h("button", {
      type: "button", role: "switch", class: "switch", "aria-checked": String(fault.value),
      "aria-labelledby": `label-${key}`, "data-key": key, onclick: set(!fault.value),
    })];
  }
  const isTime = fault.name.endsWith("_ms");
  const active = fault.value ? h("span", { class: "pill unknown" }, isTime ? `${fault.value} ms` : `${fault.value} to come`) : null;
  const more = isTime ? `${fault.next} ms` : "Once";
  return [label, active,
    fault.value ? control(`${key}-off`, "Off", set(0)) : null,
    isTime && fault.value ? null : control(key, more, set(isTime ? fault.next : fault.value + fault.next))];
}

function control(key, text, onclick, kind = "", disabled = false) {
  return h("button", { type: "button", "data-key": key, class: kind, onclick, disabled }, text);
}

function block(title, text, ...content) {
  return h("section", { class: "block" }, h("h2", {}, title), h("p", { class: "note" }, text), ...content.filter(Boolean));
}
