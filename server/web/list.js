// The list of conversations beside the page.

import { $, element, button } from "./dom.js";
import { Conversation, imported } from "./conversation.js";
import * as store from "./store.js";

// List shows all conversations; open(conversation) is called for the one to show.
export class List {
  constructor(open) {
    this.open = open;
    $("new").addEventListener("click", () => this.begin());
    $("search").addEventListener("input", () => this.draw());
    $("export").addEventListener("click", () => this.export());
    $("import").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", () => this.import($("file").files[0]));
  }

  async load() {
    this.all = await store.conversations();
    this.begin();
  }

  // begin opens an empty conversation. It is kept once it has a message.
  begin() {
    this.show(new Conversation({ system: store.setting("system", "") }));
  }

  show(conversation) {
    this.current = conversation;
    this.draw();
    document.body.classList.remove("listing");
    this.open(conversation);
  }

  // changed keeps a conversation, and moves it to the top.
  changed(conversation) {
    conversation.changed = Date.now();
    this.all = [conversation, ...this.all.filter(c => c !== conversation)];
    this.draw();
    return store.save(conversation);
  }

  draw() {
    const text = $("search").value.trim();
    const found = text ? this.all.filter(c => c.has(text)) : this.all;
    $("conversations").replaceChildren(...found.map(c => this.row(c)));
    $("none").hidden = found.length > 0;
    $("none").textContent = text ? "No conversation has these words." : "Conversations are kept in this browser.";
  }

  row(c) {
    const open = element("button", { type: "button", className: "open", title: new Date(c.changed).toLocaleString(), onclick: () => this.show(c) }, c.title || "…");
    if (c === this.current) open.setAttribute("aria-current", "true");
    const row = element("li", {}, open, button("✎", "Rename", () => this.rename(c, row)), button("✕", "Delete", () => this.remove(c)));
    return row;
  }

  rename(c, row) {
    const input = element("input", { value: c.title, maxLength: 200 });
    input.setAttribute("aria-label", "Name of the conversation");
    let done = false;
    const end = keep => {
      if (done) return;
      done = true;
      if (keep && input.value.trim()) c.title = input.value.trim();
      store.save(c);
      this.draw();
    };
    input.addEventListener("keydown", e => {
      if (e.key === "Enter") end(true);
      if (e.key === "Escape") { e.stopPropagation(); end(false); }
    });
    input.addEventListener("blur", () => end(true));
    row.replaceChildren(input);
    input.select();
  }

  remove(c) {
    if (!confirm(`Delete "${c.title}"?`)) return;
    this.all = this.all.filter(other => other !== c);
    store.remove(c);
    if (c === this.current) this.begin();
    this.draw();
  }

  export() {
    const text = JSON.stringify({ ridge: 1, conversations: this.all });
    const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: "ridge-conversations.json" });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  async import(file) {
    $("file").value = "";
    if (!file) return;
    try {
      const news = imported(await file.text());
      this.all = [...news, ...this.all].sort((a, b) => b.changed - a.changed);
      await Promise.all(news.map(store.save));
      this.draw();
    } catch (error) {
      alert(`${file.name} was not imported: ${error.message}`);
    }
  }
}
