// Package kv keeps account of the key/value cache: which page of it holds which tokens of which sequence. It moves no
// data and knows no device: it hands out int32 page ids, and the backend owns the memory that they number.
//
// A page has room for PageSize tokens, in every layer. A sequence is a table of pages; the row of the cache that its
// token at position p uses, its slot, is table[p/PageSize]*PageSize + p%PageSize.
//
//	free ──Append──► held by one or more sequences ──Publish──► held, and in the index
//	  ▲                    │ Free                                      │ Free
//	  └────────────────────┘                                           ▼
//	  └──────────────── evicted when pages run out ──────────── idle: only the index knows it
//
// The index finds the pages of a prompt's beginning that some earlier request computed. It matches on tokens (a hash
// only narrows the search), in whole pages, and apart for every salt: tenants and adapters must not share. There are
// three: Radix, HashBlocks and None.
//
// In a step, the engine does this for each request that the plan chose, in the plan's order:
//
//	pool.Open(seq, salt, tokens)            // a new request: take over what the index has
//	pool.Extend(seq, tokens)                // an old one still reading its prompt: take over what is new there
//	copies, ok = pool.Append(seq, n, copies) // room for n more tokens
//	pool.Publish(seq, tokens)               // at once: a later request of the same step shares already
//	slots = pool.Slots(slots, seq, n)       // where the step writes them
//
// Sharing within a step is sound because a layer writes the keys and values of all the step's tokens before any token
// attends. Copies are to be carried out in their order, before the step writes. If the step fails, the pages it was
// to write hold nothing of use: free the step's sequences, then Flush.
package kv
