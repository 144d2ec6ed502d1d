// What only the local runtime has: requests to send, processes to kill, faults to inject.

import { api, ask, block, button, byId, h, refill, say } from "./parts.js";

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
        button(`send-${route.name}`, `${route.name}…`, () => send(route, refresh)))),
      state.last_answer ? h("pre", { "aria-label": "The last answer" }, state.last_answer) : null),
    block("Kill a process", "SIGKILL, as when Lambda loses a host. A request that it runs gets 500.",
      processes(state.processes.filter((one) => one.busy), run)
        ?? h("p", { class: "empty" }, "No process runs a request. Hold the provider’s calls to keep one busy."),
      idle(state.processes.filter((one) => !one.busy), run)),
    ...state.faults.map((group) => block(group.title, group.text,
      h("ul", { class: "lines" }, group.faults.map((fault) => h("li", {}, ...faultLine(group.at, fault, run)))))),
    state.schedules.length ? block("Run now", "Calls a function as its schedule does.",
      h("div", { class: "buttons left" }, state.schedules.map((name) =>
        button(`run-${name}`, name, run({ do: "run", function: name }))))) : null);
}

function processes(list, run) {
  if (!list.length) return null;
  return h("ul", { class: "lines" }, list.map((one) => h("li", {},
    h("span", { class: `dot ${one.busy ? "busy" : ""}` }),
    h("span", {}, one.function),
    h("span", { class: "soft" }, `pid ${one.pid}, ${one.busy ? "runs a request" : "idle"}`),
    button(`kill-${one.pid}`, "Kill", run({ do: "kill", pid: one.pid }), one.busy ? "danger" : ""))));
}

let showsIdle = false;

function idle(list, run) {
  return h("details", { open: showsIdle, ontoggle: (event) => { showsIdle = event.target.open; } },
    h("summary", { "data-key": "idle" }, `${list.length} idle`), processes(list, run));
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
    fault.value ? button(`${key}-off`, "Off", set(0)) : null,
    isTime && fault.value ? null : button(key, more, set(isTime ? fault.next : fault.value + fault.next))];
}
