// What the browser keeps: conversations in IndexedDB, settings in localStorage. Without them (a private window) the page works, and forgets.

import { Conversation } from "./conversation.js";

const request = r => new Promise((resolve, reject) => { r.onsuccess = () => resolve(r.result); r.onerror = () => reject(r.error); });

let opened;

// table is a transaction's table of conversations.
async function table(mode) {
  opened ??= request(Object.assign(indexedDB.open("ridge", 1), { onupgradeneeded: e => e.target.result.createObjectStore("conversations", { keyPath: "id" }) }));
  return (await opened).transaction("conversations", mode).objectStore("conversations");
}

// conversations are all, the one changed last first.
export async function conversations() {
  try {
    const all = await request((await table("readonly")).getAll());
    return all.map(c => new Conversation(c)).sort((a, b) => b.changed - a.changed);
  } catch {
    return [];
  }
}

export async function save(conversation) {
  await request((await table("readwrite")).put({ ...conversation })).catch(() => {});
}

export async function remove(conversation) {
  await request((await table("readwrite")).delete(conversation.id)).catch(() => {});
}

// setting reads one, and set writes it.
export function setting(name, otherwise) {
  try { return JSON.parse(localStorage.getItem("ridge." + name)) ?? otherwise; } catch { return otherwise; }
}

export function set(name, value) {
  try { localStorage.setItem("ridge." + name, JSON.stringify(value)); } catch { /* there is none, or it is full */ }
}
