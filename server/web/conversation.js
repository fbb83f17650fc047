// Conversations. Each is a tree: a message that is edited, or an answer that is asked for again, stands beside the first one, and the leaf says which way
// through the tree is shown.

import { newID } from "./dom.js";

export class Conversation {
  constructor(data = {}) {
    this.id = data.id ?? newID();
    this.title = data.title ?? "";
    this.changed = data.changed ?? Date.now();
    this.system = data.system ?? "";
    this.nodes = data.nodes ?? []; // {parent, role, content, …}; a node's place in the list is its number
    this.leaf = data.leaf ?? -1;
  }

  // add puts a message after another, and shows it. It returns its number.
  add(parent, message) {
    this.leaf = this.nodes.push({ parent, ...message }) - 1;
    this.changed = Date.now();
    if (!this.title && message.role === "user") this.title = message.content.trim().split("\n")[0].slice(0, 60);
    return this.leaf;
  }

  // path is the numbers of the messages that are shown, the first one first.
  path() {
    const all = [];
    for (let n = this.leaf; n >= 0; n = this.nodes[n].parent) all.unshift(n);
    return all;
  }

  // siblings are the messages that stand in one place, that of message n.
  siblings(n) {
    const parent = this.nodes[n].parent;
    return this.nodes.flatMap((m, i) => m.parent === parent ? [i] : []);
  }

  // show goes to message n, and on to the newest that came after it.
  show(n) {
    for (;;) {
      const next = this.nodes.findLastIndex(m => m.parent === n);
      if (next < 0) break;
      n = next;
    }
    this.leaf = n;
  }

  // messages is what is sent to have message n answered: all up to it but for turns that failed, which would fail again.
  messages(n) {
    const kept = [];
    for (let i = n, failed = false; i >= 0; i = this.nodes[i].parent) {
      const m = this.nodes[i];
      if (m.role === "assistant") {
        failed = Boolean(m.error) && !m.content;
        if (!failed) kept.unshift({ role: "assistant", content: m.content });
      } else if (!failed) {
        kept.unshift({ role: "user", content: withFiles(m) });
      }
    }
    if (this.system.trim()) kept.unshift({ role: "system", content: this.system.trim() });
    return kept;
  }

  // has reports whether a text occurs in the conversation.
  has(text) {
    text = text.toLowerCase();
    return this.title.toLowerCase().includes(text) || this.nodes.some(m => m.content.toLowerCase().includes(text));
  }
}

// withFiles is a message with the texts that are attached to it.
function withFiles(m) {
  return [m.content, ...(m.files ?? []).map(f => `${f.name}:\n\`\`\`\n${f.text}\n\`\`\``)].join("\n\n");
}

// imported is the conversations in the text of an exported file.
export function imported(text) {
  const data = JSON.parse(text);
  if (!Array.isArray(data.conversations)) throw new Error("the file has no list of conversations");
  return data.conversations.map(c => {
    const right = Array.isArray(c.nodes) && c.nodes.every((m, i) => Number.isInteger(m.parent) && m.parent < i && typeof m.content === "string" && ["user", "assistant"].includes(m.role)
      && (m.files ?? []).every?.(f => typeof f?.name === "string" && typeof f.text === "string"));
    if (!right || !(c.leaf >= -1 && c.leaf < c.nodes.length)) throw new Error(`the conversation "${c.title}" is not one that this page has written`);
    return new Conversation({ ...c, id: newID(), title: String(c.title ?? ""), system: String(c.system ?? "") });
  });
}
