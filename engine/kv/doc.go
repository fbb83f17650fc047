// Package kv is the bookkeeping of the paged KV cache: which page of them holds which tokens of which sequence. It moves no
// data and knows no device: it allocates int32 page ids, and the backend owns the memory that they number.
//
// A page has room for PageSize tokens, in every layer of a cache group. A group is the layers that need the same tokens of a
// sequence kept: all of them, those of a sliding window or, of recurrent layers, none but a state. A sequence has a table of pages for each group; the row of a cache that its
// token at position p uses, its slot, is table[p/PageSize]*PageSize + p%PageSize. Tables of groups with a window are as long as
// the others, but their pages are given back as they fall out of the window.
//
//	free ──Append──► held by one or more sequences ──Publish──► held, and attached to a node of the index
//	  ▲                    │ Free, Trim, Truncate                      │ Free, Trim, Truncate
//	  └────────────────────┘                                           ▼
//	  └──────────────── evicted when pages run out ──────────── idle: only the index knows it
//
// The index finds the pages of a prompt's beginning that some earlier request computed. Its nodes are pages' worth of tokens, each after
// another; a node has the page of each group that holds them, or has lost that of a group with a window. A beginning can
// be taken over up to a node if every group has the pages that the next token looks at. The index matches on tokens (a hash
// only narrows the search), in whole pages, and apart for every salt: tenants and adapters must not share (but pages before an adapter acts: see Salt). There are
// three: Radix, HashBlocks and None.
//
// In groups that keep all tokens, the least recently released texts are evicted first, from their ends (leaf-first LRU), with their
// nodes. In a group with a window it is the least recently released page, wherever in a text it is. Where there are states, these decide, by what they are worth: see below.
//
// In a recurrent group a page is a state. A sequence goes on in its own; Snapshot attaches it to the node that the sequence ends
// with, and the next Append continues in a copy. A sequence that takes over a prefix starts from a copy of the snapshot there. The state of
// a new sequence is not cleared: a layer that computes the first token starts from zero. Of a sequence's own snapshots the newest is kept, and those
// that others went on from; Parts says where one is missing that others would share. Kept states and pages share one memory: a state whose page is wanted is
// stored in pages of the group that keeps all tokens, and fetched from there by the Append of the sequence that goes on from it. When pages run out, ends of texts
// behind their last state go first, which nobody can go on from, and then the state that is worth least, with the pages that lead to it alone: what computing its tokens
// from the last state before it takes (Options.Price), for each page, divided by the requests since it was of use.
//
// In a step, the engine does this for each request that is scheduled, in that order:
//
//	m.Open(seq, salt, tokens)              // a new request: take over what the index has
//	m.Extend(seq, tokens)                  // an old one still reading its prompt: take over what is new there
//	copies, ok = m.Append(seq, n, copies)  // room for n more tokens
//	m.Publish(seq, tokens)                 // at once: a later request of the same step shares already
//	slots = m.Slots(slots, seq, group, n)  // where the step writes them
//
// Sharing within a step is sound because a layer writes the keys and values of all the step's tokens before any token
// attends. Copies are to be carried out in their order, before the step writes. A page that is given back may be given out again at
// once: steps run one after the other, so every read of it is done before it is written. If the step fails, the pages it was
// to write hold nothing of use: free the step's sequences, then Flush.
package kv
