// Package draft is speculative decoding's guesses: drafters propose the next tokens of sequences, which the engine verifies in one step
// (Leviathan et al., arXiv:2211.17192), and a plan says how many are worth it.
//
// Verification samples the target's token at every row of a draft, with the random number that the sequence has for that place, and goes on to the
// next row as long as the token is the drafted one. For drafts that are given rather than sampled that is rejection sampling: token x is
// accepted with the target's probability p(x), and else the token comes from the target's distribution without x. So answers are those of
// decoding without drafts, token by token, whatever a drafter proposes.
package draft

import (
	"fmt"
	"slices"
	"strings"
)

// MaxTokens is the most tokens of a draft.
const MaxTokens = 32

// Draft is a proposal: tokens that may follow a sequence, each after another one.
type Draft struct {
	Tokens []int32
	// Parents says which of Tokens each comes after, by its index; -1 is the sequence's last token. A parent comes before its children. Empty: a
	// chain, each after the one before.
	Parents []int
	// Window is how many of the last tokens are there for what the target has after them, which an Observer is told, whether they are accepted or not.
	Window int
}

// Chain reports whether every token comes after the one before.
func (d *Draft) Chain() bool {
	for i, p := range d.Parents {
		if p != i-1 {
			return false
		}
	}
	return true
}

// Parent is the index of the token that token i comes after; -1: the sequence's last.
func (d *Draft) Parent(i int) int {
	if len(d.Parents) == 0 {
		return i - 1
	}
	return d.Parents[i]
}

// Child is the index of a token that comes after token i (-1: after the sequence's last) and is id; -1: there is none.
func (d *Draft) Child(i int, id int32) int {
	for j := i + 1; j < len(d.Tokens); j++ {
		if d.Tokens[j] == id && d.Parent(j) == i {
			return j
		}
	}
	return -1
}

// Path appends the tokens up to and with token i, from the first after the sequence's.
func (d *Draft) Path(dst []int32, i int) []int32 {
	from := len(dst)
	for ; i >= 0; i = d.Parent(i) {
		dst = append(dst, d.Tokens[i])
	}
	slices.Reverse(dst[from:])
	return dst
}

// Depth is how many tokens its longest branch has.
func (d *Draft) Depth() int {
	var depth [64]int
	most := 0
	for i := range d.Tokens {
		depth[i] = 1
		if p := d.Parent(i); p >= 0 {
			depth[i] = depth[p] + 1
		}
		most = max(most, depth[i])
	}
	return most
}

// Cut leaves the first n tokens.
func (d *Draft) Cut(n int) {
	if n < len(d.Tokens) {
		d.Window = max(0, n-(len(d.Tokens)-d.Window))
	}
	d.Tokens = d.Tokens[:min(n, len(d.Tokens))]
	d.Parents = d.Parents[:min(n, len(d.Parents))]
}

// Keep leaves the tokens that it is told to, without those that come after others than these.
func (d *Draft) Keep(these []bool) {
	first := slices.Index(these, false)
	if first < 0 {
		return
	}
	if d.Chain() {
		d.Cut(first)
		return
	}
	kept, now := Draft{}, make([]int, len(d.Tokens)) // its slices are the drafter's
	for i, id := range d.Tokens {
		p := d.Parent(i)
		if now[i] = -1; !these[i] || p >= 0 && now[p] < 0 {
			continue
		}
		if p >= 0 {
			p = now[p]
		}
		now[i] = len(kept.Tokens)
		kept.Tokens, kept.Parents = append(kept.Tokens, id), append(kept.Parents, p)
		if i >= len(d.Tokens)-d.Window {
			kept.Window++
		}
	}
	*d = kept
}

// Sequence is what a drafter is asked to go on with.
type Sequence struct {
	ID     int64
	Salt   uint64  // what is learnt of sequences is for those of equal salt
	Tokens []int32 // prompt and answer so far
	Max    int     // tokens of the draft, at most; 1 to MaxTokens
	// Choose is the token that the sequence's sampling settings, penalties and random numbers make of logits, [vocab], after its tokens and some of a draft;
	// -1: none. A model that gives the logits that the target is going to give so drafts what the target is going to sample. The logits are overwritten.
	Choose func(logits []float32, drafted []int32) int32
	// Computed is how many of Tokens are in the target's cache, and Cache where the others and the draft have room there, by cache group: of an InCache drafter.
	Computed int
	Cache    []Lent
	Draft    Draft // set by Propose; its slices are the drafter's until the next call
}

// Lent is room in a cache group of the target. It is the drafter's during a call, and what it writes there is dropped after it.
type Lent struct {
	Slots []int32 // of the tokens from Sequence.Computed on
	Pages []int32 // of the sequence, from its beginning
}

// Drafter proposes tokens. The engine's goroutine calls it and waits.
type Drafter interface {
	// Name is what metrics and lines of the log call it.
	Name() string
	// Propose sets the Draft of each sequence: up to Max tokens, none where it knows nothing. Of a sequence that it has been asked before,
	// tokens may have been added, and nothing else changed. Ids that are not in the target's vocabulary are dropped by the caller.
	Propose(seqs []Sequence) error
	// Seconds is what proposing so many tokens for so many sequences takes.
	Seconds(seqs, tokens int) float64
	// Forget says that a sequence has ended, with these tokens; the drafter may learn from them.
	Forget(id int64, tokens []int32)
	// Close frees what it holds.
	Close() error
}

// FromHidden is a Drafter that goes on from the target's hidden states, which stay on the device.
type FromHidden interface {
	Drafter
	// Computed says whose hidden states the target's last step has left on the device. They stay until it computes the next step, before which
	// Computed is called with none.
	Computed(all []Computed)
}

// Behind is a Drafter that has to compute what it has not seen of a sequence, such as its prompt, before it proposes anything for it.
type Behind interface {
	Drafter
	// Behind is how many seconds that takes for a sequence of so many tokens, beyond what proposing takes in any case.
	Behind(id int64, tokens int) float64
}

// Paged is a Drafter with a paged cache of its own, in which a sequence's pages go the way of its pages in the target's.
type Paged interface {
	Drafter
	// Preempted says that the target has given a sequence's pages up or, if swapped, has moved them to host memory, from where Resumed brings them back.
	Preempted(id int64, swapped bool) error
	Resumed(id int64) error
}

// Concurrent is a Drafter that may be asked while the target's device is at a step: it runs nothing there, and reads nothing of it.
type Concurrent interface {
	Drafter
	Concurrent() bool
}

// InCache is a Drafter that computes in the target's own cache, with some of its layers: see Lent.
type InCache interface {
	Drafter
	InCache() bool
}

// Branching is a Drafter whose drafts are trees.
type Branching interface {
	Drafter
	Trees() bool
}

// Observer is a Drafter that learns from what the target has after tokens that need not be accepted. Its drafts are verified as they are or not at all.
type Observer interface {
	Drafter
	// Observe says which token the target has after each of those of the sequence's last draft's window that were verified: the likeliest or, where the device
	// samples, the one that it sampled.
	Observe(id int64, after []int32)
}

// Computed is what a step of the target has computed of a sequence.
type Computed struct {
	ID     int64
	Salt   uint64  // as of a Sequence
	Tokens []int32 // prompt and answer so far, with what the step has brought
	From   int     // position of the first token that was computed
	Rows   []int32 // rows of the step with the tokens from there on, in order: of a draft, those that were accepted. Empty: others have computed them
	Last   int     // row of the step's logits that the last token was sampled from; -1: it was not
}

// Method is a way to draft, as --speculative-config names it.
type Method string

const (
	NGram      Method = "ngram"       // what followed the last occurrence of the latest tokens in the sequence itself (prompt lookup)
	Suffix     Method = "suffix"      // what most often followed the latest tokens in the sequence and in answers before
	DraftModel Method = "draft_model" // what a smaller model of the same vocabulary goes on with
	LayerSkip  Method = "layerskip"   // the target's own first layers and its head (Elhoushi et al., arXiv:2404.16710)
	MTP        Method = "mtp"         // layers of the model's file that predict further tokens
	Eagle      Method = "eagle"       // a layer on the target's hidden states and its own (Li et al., arXiv:2401.15077)
	Eagle3     Method = "eagle3"      // one on those of several of the target's layers (arXiv:2503.01840)
	Lookahead  Method = "lookahead"   // n-grams of the model's own guesses at later places (Fu et al., arXiv:2402.02057)
	Medusa     Method = "medusa"      // heads on the target's hidden state (Cai et al., arXiv:2401.10774)
)

// methods are all of them, and aliases other names that vLLM has for some.
var (
	methods = []Method{NGram, Suffix, Lookahead, LayerSkip, DraftModel, Medusa, MTP, Eagle, Eagle3}
	aliases = map[string]Method{
		"[ngram]": NGram, "deepseek_mtp": MTP, "qwen3_next_mtp": MTP, "qwen3_5_mtp": MTP, "glm4_moe_mtp": MTP, "glm4_moe_lite_mtp": MTP,
	}
)

// ParseMethod reads a method's name.
func ParseMethod(name string) (Method, error) {
	if slices.Contains(methods, Method(name)) {
		return Method(name), nil
	}
	if m, ok := aliases[name]; ok {
		return m, nil
	}
	return "", fmt.Errorf("draft: method %q; %s and %s are possible", name, joined(methods[:len(methods)-1]), methods[len(methods)-1])
}

// HasModel reports whether the method drafts with a model of its own, in files beside the target's.
func (m Method) HasModel() bool {
	return m == DraftModel || m == Medusa || m == Eagle || m == Eagle3
}

// joined is methods with commas between them.
func joined(all []Method) string {
	var names []string
	for _, m := range all {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}
