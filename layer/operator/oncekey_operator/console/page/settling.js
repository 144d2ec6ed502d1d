// What a person says of an operation: it took effect, it did not, or it ends for good.

import { api, ask, now } from "./parts.js";

const reasonField = { name: "reason", label: "Reason", hint: "It is written to the audit table with your name." };

function answerField(one, step, status) {
  const answer = one.answers_http && !step
    ? { value: `{"statusCode": ${status}, "body": {}}`, hint: "What the handler would have returned: a JSON object with statusCode and body. A body that is no text is sent as JSON." }
    : { value: "null", hint: step ? "What the step would have returned, as JSON." : "What the function would have returned, as JSON." };
  return { name: "answer", label: step ? "Result of the step" : "Answer", kind: "textarea", ...answer };
}

export function end(one, refresh) {
  ask({
    title: "End the operation for good",
    text: "Its handler never runs again, and what its finished steps did stays done. Every retry of the client gets this answer.",
    fields: [answerField(one, "", 409), reasonField],
    action: "End it",
    danger: true,
    act: async (given) => {
      const said = await api("settle", {
        reference: one.reference, attempt: one.attempt, finding: "end", answer: parsed(given.answer), reason: given.reason,
      });
      refresh();
      return said;
    },
  });
}

export function settle(one, completed, refresh) {
  const step = one.step_in_doubt;
  // What a person has found out is no newer than the question, however long the dialog waits.
  const lookedAt = now();
  const what = step ? `the step “${step}”` : "the operation";
  const fields = [reasonField];
  if (completed) fields.unshift(answerField(one, step, 201));
  ask({
    title: completed ? `Settle ${what} as completed` : `Settle ${what} as not executed`,
    text: completed
      ? (step ? "The next request of the client goes on after this step." : "Every retry of the client gets this answer.")
      : "Only if it is certain that nothing happened and nothing can still arrive: the same key may run again at once. What counts is what the provider showed when this was opened.",
    fields,
    action: completed ? "Settle as completed" : "Settle as not executed",
    danger: !completed,
    act: async (given) => {
      const finding = completed ? { answer: parsed(given.answer) } : { looked_at: lookedAt };
      const said = await api("settle", {
        reference: one.reference, attempt: one.attempt, finding: completed ? "completed" : "not-executed", step, reason: given.reason, ...finding,
      });
      refresh();
      return said;
    },
  });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The answer is not JSON: ${error.message}`);
  }
}
