"use strict";

const $ = id => document.getElementById(id);
const conversation = []; // {role, content}, as the API has them
let running = null; // the AbortController of the answer under way

// headers are those of every call: the key, if there is one.
function headers() {
  const h = { "Content-Type": "application/json" };
  if ($("key").value) h.Authorization = "Bearer " + $("key").value;
  return h;
}

// add puts an element at the end of the messages, and keeps the end in sight if it was.
function add(element) {
  const end = atEnd();
  $("empty").hidden = true;
  $("messages").append(element);
  if (end) toEnd();
  return element;
}

function atEnd() {
  const m = $("messages");
  return m.scrollHeight - m.scrollTop - m.clientHeight < 48;
}

function toEnd() { $("messages").scrollTop = $("messages").scrollHeight; }

// show adds a message to the page and returns the element of its text.
function show(kind, text) {
  const e = document.createElement("div");
  e.className = "message " + kind;
  const inner = kind === "user" ? e.appendChild(document.createElement("div")) : e;
  inner.textContent = text;
  add(e);
  return e;
}

// showReasoning adds the place for what a model thinks before it answers, hidden while there is none.
function showReasoning() {
  const e = document.createElement("details"), summary = document.createElement("summary"), text = document.createElement("div");
  e.className = "reasoning";
  e.hidden = true;
  summary.textContent = "Reasoning";
  text.className = "message";
  e.append(summary, text);
  add(e);
  return { more(piece) { e.hidden = false; text.textContent += piece; } };
}

// redraw shows the conversation anew.
function redraw() {
  for (const e of [...$("messages").children]) if (e !== $("empty")) e.remove();
  for (const m of conversation) show(m.role, m.content);
  $("empty").hidden = conversation.length > 0;
  enable();
  toEnd();
}

// enable lets buttons be pressed that would do something.
function enable() {
  const busy = running !== null;
  $("send").disabled = busy;
  $("stop").disabled = !busy;
  $("again").disabled = busy || conversation.length === 0;
  $("clear").disabled = !busy && conversation.length === 0 && $("empty").hidden === false;
}

// events yields the data of a stream of server-sent events.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "data: [DONE]") return;
      if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
    }
  }
}

function body() {
  const system = $("system").value.trim();
  const messages = system ? [{ role: "system", content: system }, ...conversation] : conversation;
  const b = { messages, stream: true, stream_options: { include_usage: true } };
  for (const name of ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"]) {
    if ($(name).value !== "") b[name] = Number($(name).value);
  }
  return JSON.stringify(b);
}

// speed is what an answer took, in words.
function speed(usage, seconds) {
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  const rate = seconds > 0 && usage.completion_tokens > 1 ? `, ${((usage.completion_tokens - 1) / seconds).toFixed(1)} tokens/s` : "";
  return `${usage.completion_tokens} tokens${rate}; prompt ${usage.prompt_tokens}, ${cached} cached`;
}

// answer asks for the next message and shows it as it comes.
async function answer() {
  const mine = running = new AbortController();
  enable();
  $("speed").textContent = "";
  const reasoning = showReasoning();
  const element = show("assistant waiting", "");
  let began = 0, text = "";
  try {
    const response = await fetch("v1/chat/completions", { method: "POST", headers: headers(), body: body(), signal: mine.signal });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      const delta = event.choices[0]?.delta ?? {}, end = atEnd();
      if (delta.content || delta.reasoning_content) began ||= performance.now();
      text += delta.content ?? "";
      element.textContent = text;
      if (delta.reasoning_content) reasoning.more(delta.reasoning_content);
      if (end) toEnd();
      if (event.usage) $("speed").textContent = speed(event.usage, (performance.now() - began) / 1000);
    }
  } catch (error) {
    if (error.name !== "AbortError") show("error", error.message);
    else if (!mine.cleared) $("speed").textContent = "stopped";
  }
  element.classList.remove("waiting");
  if (text && !mine.cleared) conversation.push({ role: "assistant", content: text });
  else element.remove();
  running = null;
  enable();
  $("text").focus();
}

function again() {
  if (running || conversation.length === 0) return;
  if (conversation.at(-1).role === "assistant") conversation.pop();
  redraw();
  answer();
}

$("form").addEventListener("submit", event => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (!text || running) return;
  $("text").value = "";
  conversation.push({ role: "user", content: text });
  show("user", text);
  toEnd();
  answer();
});

$("text").addEventListener("keydown", event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("form").requestSubmit();
  }
});

document.addEventListener("keydown", event => {
  if (event.key === "Escape") running?.abort();
  if (event.altKey && event.code === "KeyR") {
    event.preventDefault();
    again();
  }
});

$("stop").addEventListener("click", () => running?.abort());
$("again").addEventListener("click", again);

$("clear").addEventListener("click", () => {
  if (running) running.cleared = true;
  running?.abort();
  conversation.length = 0;
  $("speed").textContent = "";
  redraw();
  $("text").focus();
});
