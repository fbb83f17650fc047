// The page: a conversation, whose answers are asked for and shown as they come.

import { $, element, button } from "./dom.js";
import { get, post } from "./api.js";
import { List } from "./list.js";
import { Message } from "./message.js";
import * as settings from "./settings.js";

let conversation;
let shown = []; // a Message for each of conversation.path()
let running = null; // the answer under way: {conversation, stop}
let files = []; // {name, text}, which go with the next message

const list = new List(open);

function atEnd() {
  const m = $("messages");
  return m.scrollHeight - m.scrollTop - m.clientHeight < 48;
}

function toEnd() { $("messages").scrollTop = $("messages").scrollHeight; }

// open shows a conversation.
function open(c) {
  conversation = c;
  $("system").value = c.system;
  redraw();
  $("text").focus();
}

function redraw() {
  shown = conversation.path().map(n => new Message(conversation, n, { edit, retry, show }));
  $("messages").replaceChildren($("empty"), ...shown.map(m => m.element));
  $("empty").hidden = shown.length > 0;
  meter();
  enable();
  toEnd();
}

// meter shows how much of the model's context the conversation takes.
function meter() {
  const usage = shown.findLast(m => m.message.usage)?.message.usage, most = settings.context();
  $("context").hidden = !usage || !most;
  if (!usage || !most) return;
  $("filled").max = most;
  $("filled").value = usage.total_tokens;
  $("fill").textContent = `${usage.total_tokens} of ${most} tokens`;
}

// enable lets buttons be pressed that would do something.
function enable() {
  document.body.dataset.busy = running ? "yes" : "no";
  $("send").disabled = running !== null;
  $("stop").disabled = running === null;
}

// answer has message n answered, and shows the answer as it comes.
async function answer(n) {
  const mine = running = { conversation, stop: new AbortController() };
  const m = { role: "assistant", content: "", waiting: true };
  const place = conversation.add(n, m);
  const stored = conversation.nodes[place];
  redraw();
  const view = shown.at(-1), began = performance.now();
  let first = 0, id = "", drawn = false;
  const draw = () => {
    drawn = false;
    const end = atEnd();
    view.update();
    if (end) toEnd();
  };
  try {
    const body = { messages: mine.conversation.messages(n), stream: true, stream_options: { include_usage: true }, ...settings.sampling() };
    for await (const event of post("v1/chat/completions", body, mine.stop.signal)) {
      id = event.id;
      const delta = event.choices[0]?.delta ?? {};
      if (delta.content || delta.reasoning_content || delta.tool_calls) first ||= performance.now();
      stored.content += delta.content ?? "";
      if (delta.reasoning_content) stored.reasoning = (stored.reasoning ?? "") + delta.reasoning_content;
      for (const call of delta.tool_calls ?? []) addCall(stored.calls ??= [], call);
      if (event.usage) Object.assign(stored, { usage: event.usage, took: (performance.now() - first) / 1000, first: (first - began) / 1000 });
      if (!drawn) requestAnimationFrame(draw);
      drawn = true;
    }
    stored.price = (await get(`v1/requests/${encodeURIComponent(id)}/explain`).catch(() => null))?.answers[0];
  } catch (error) {
    stored.error = error.name === "AbortError" ? "stopped" : error.message;
  }
  delete stored.waiting;
  running = null;
  await list.changed(mine.conversation);
  draw();
  enable();
  if (conversation === mine.conversation) { meter(); $("text").focus(); }
}

// addCall takes in a piece of a call of a tool.
function addCall(calls, piece) {
  const call = calls[piece.index] ??= { name: "", arguments: "" };
  call.name += piece.function?.name ?? "";
  call.arguments += piece.function?.arguments ?? "";
}

function send(parent, content, attached) {
  const n = conversation.add(parent, { role: "user", content, ...(attached.length > 0 && { files: attached }) });
  answer(n);
}

// edit puts a changed message beside the first one and has it answered.
function edit(n, text) {
  if (!running && text.trim()) send(conversation.nodes[n].parent, text.trim(), conversation.nodes[n].files ?? []);
}

// retry asks for another answer in the place of one.
function retry(n) {
  if (!running) answer(conversation.nodes[n].parent);
}

function show(n) {
  if (running) return;
  conversation.show(n);
  list.changed(conversation);
  redraw();
}

// attach adds files to the next message. What is no text is refused.
async function attach(chosen) {
  for (const file of chosen) {
    const text = await file.text();
    if (text.includes("\0") || text.includes("\uFFFD")) {
      alert(`${file.name} is no text; only texts can be attached`);
      continue;
    }
    files.push({ name: file.name, text });
  }
  showFiles();
}

function showFiles() {
  $("attached").replaceChildren(...files.map(f => element("span", { className: "file" }, f.name, button("✕", "Leave " + f.name + " out", () => {
    files = files.filter(other => other !== f);
    showFiles();
  }))));
}

$("form").addEventListener("submit", event => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (!text && files.length === 0 || running) return;
  $("text").value = "";
  send(conversation.leaf, text, files.splice(0));
  showFiles();
});

$("text").addEventListener("keydown", event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("form").requestSubmit();
  }
});

document.addEventListener("keydown", event => {
  if (event.key === "Escape") {
    running?.stop.abort();
    document.body.classList.remove("listing", "setting");
  }
  if (event.altKey && event.code === "KeyR" && conversation.nodes[conversation.leaf]?.role === "assistant") {
    event.preventDefault();
    retry(conversation.leaf);
  }
  if (event.altKey && event.code === "KeyN") {
    event.preventDefault();
    list.begin();
  }
});

$("stop").addEventListener("click", () => running?.stop.abort());
$("attach").addEventListener("click", () => $("attachment").click());
$("attachment").addEventListener("change", () => attach([...$("attachment").files]).then(() => { $("attachment").value = ""; }));
$("form").addEventListener("dragover", event => event.preventDefault());
$("form").addEventListener("drop", event => { event.preventDefault(); attach([...event.dataTransfer.files]); });
$("models").addEventListener("change", meter);
for (const panel of ["listing", "setting"]) $(panel).addEventListener("click", () => document.body.classList.toggle(panel));

settings.begin(text => {
  conversation.system = text;
  if (conversation.nodes.length > 0) list.changed(conversation);
});
await list.load();
await settings.loadModels().catch(() => {});
