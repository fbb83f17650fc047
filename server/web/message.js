// A message on the page, with what belongs to it: reasoning, calls of tools, figures and the price of an answer, and buttons.

import { element, button, copy } from "./dom.js";
import { draw } from "./markdown.js";

const seconds = s => s >= 1 ? s.toFixed(2) + " s" : s >= 1e-3 ? (1000 * s).toFixed(1) + " ms" : Math.round(1e6 * s) + " µs";

// Message shows message n of a conversation. Its actions are functions: edit(n, text), retry(n), show(n).
export class Message {
  constructor(conversation, n, actions) {
    Object.assign(this, { conversation, n, actions, message: conversation.nodes[n], parts: {} });
    this.text = element("div", { className: "text" });
    this.element = element("article", { className: "message " + this.message.role }, this.text);
    this.element.setAttribute("aria-label", this.message.role === "user" ? "You" : "Model");
    this.update();
  }

  // update shows what the message is now.
  update() {
    const m = this.message;
    if (m.role === "user") {
      this.text.textContent = m.content;
      this.put("files", m.files?.length && element("p", { className: "quiet" }, m.files.map(f => `${f.name} (${f.text.length} characters)`).join(", ")));
    } else {
      this.fold("reasoning", "Reasoning", m.reasoning, e => { e.textContent = m.reasoning; });
      draw(this.text, m.content ?? "");
      this.fold("calls", "Calls of tools", m.calls?.length, e => {
        e.replaceChildren(...m.calls.map(c => element("pre", {}, `${c.name}(${c.arguments})`)));
      });
      this.put("error", m.error && element("p", { className: "error" }, m.error));
    }
    this.element.classList.toggle("waiting", Boolean(m.waiting));
    this.put("foot", !m.waiting && this.foot());
  }

  // put replaces a part of the message, or takes it away.
  put(part, e) {
    this.parts[part]?.remove();
    this.parts[part] = e || null;
    if (e) this.element.append(e);
  }

  // fold shows a part that is closed until somebody opens it; it stays open while it grows.
  fold(part, name, has, fill) {
    if (!has) return;
    if (!this.parts[part]) {
      this.parts[part] = element("div");
      this.text.before(element("details", { className: part }, element("summary", {}, name), this.parts[part]));
    }
    fill(this.parts[part]);
  }

  // foot is the buttons below a message and, of an answer, its figures.
  foot() {
    const foot = element("footer"), all = this.conversation.siblings(this.n), at = all.indexOf(this.n);
    if (all.length > 1) {
      const before = button("‹", "Show the one before", () => this.actions.show(all[at - 1]));
      const after = button("›", "Show the next", () => this.actions.show(all[at + 1]));
      before.disabled = at === 0;
      after.disabled = at === all.length - 1;
      foot.append(before, element("span", { className: "quiet" }, `${at + 1} of ${all.length}`), after);
    }
    foot.append(button("Copy", "Copy the message", () => copy(this.message.content)));
    if (this.message.role === "user") foot.append(button("Edit", "Edit the message and send it again", () => this.edit()));
    else foot.append(button("Retry", "Ask for another answer", () => this.actions.retry(this.n)));
    if (this.message.usage) foot.append(this.figures());
    return foot;
  }

  // figures is what an answer took, in a line, and folded below it where the time went.
  figures() {
    const { usage, took, first, price } = this.message;
    const rate = took > 0 && usage.completion_tokens > 1 ? `, ${((usage.completion_tokens - 1) / took).toFixed(1)} tokens/s` : "";
    const line = `${usage.completion_tokens} tokens${rate}; first after ${seconds(first)}; prompt ${usage.prompt_tokens}, ${usage.prompt_tokens_details?.cached_tokens ?? 0} cached`;
    if (!price) return element("span", { className: "figures quiet" }, line);
    const rows = price.parts.map(p => {
      const share = element("meter", { max: 1, value: p.share });
      share.setAttribute("aria-hidden", "true");
      return element("tr", {}, element("th", { scope: "row" }, p.what), element("td", {}, seconds(p.seconds)), element("td", {}, Math.round(100 * p.share) + " %"), element("td", {}, share));
    });
    const whole = element("p", { className: "quiet" }, `${seconds(price.wall_seconds)} in all. ${price.cached_tokens} tokens of the prompt were in the cache, which saved about ${seconds(price.cached_seconds)}. ` +
      `Alone, and at the limits of the device, prompt and answer would take ${seconds(price.floor_seconds)}.`);
    return element("details", { className: "figures" }, element("summary", { className: "quiet" }, line), element("table", {}, ...rows), whole);
  }

  // edit makes the text of a message one that can be changed.
  edit() {
    const area = element("textarea", { value: this.message.content, rows: 4 });
    area.setAttribute("aria-label", "Message");
    const leave = () => { form.replaceWith(this.text); this.put("foot", this.foot()); };
    const send = element("button", { className: "first" }, "Send");
    const form = element("form", { className: "edit", onsubmit: e => { e.preventDefault(); this.actions.edit(this.n, area.value); } }, area, send, button("Cancel", "Leave the message as it was", leave));
    area.addEventListener("keydown", e => { if (e.key === "Escape") { e.stopPropagation(); leave(); } });
    this.text.replaceWith(form);
    this.put("foot", null);
    area.focus();
  }
}
