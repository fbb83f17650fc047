// Package prompt reads of a request's body what a router needs, without decoding it: the model, the beginning of the prompt as a chain of
// keys, whether the answer is streamed. It reads the bodies of OpenAI's, Anthropic's and Ollama's APIs.
package prompt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/ridge-llm/ridge/route/prefix"
)

// BytesOfToken is how many bytes of text a token is taken to have.
const BytesOfToken = 4

// Ask is what a request asks for.
type Ask struct {
	Model    string
	Stream   bool
	Priority int          // the least goes first
	Chain    []prefix.Key // of the prompt
	Units    int          // tokens that a unit of the chain stands for
	Blocks   bool         // units are blocks of tokens, which the replicas' own are compared with
	Tokens   int          // of the prompt: counted, or by its bytes
}

// texts are the fields that make a prompt, in the order in which chat templates write them.
var texts = []string{"tools", "system", "instructions", "messages", "prompt", "input"}

// Rules are what a body is read by.
type Rules struct {
	Base   string // model of requests that name none
	Tenant string // whose prompts are shared with nobody else's; "": there are none
	Block  int    // tokens that replicas have in a block; 0: not known
}

// Read reads a body into q, whose memory is used again. Prompts of token ids become blocks, if those are known and shared, and all others text. A body that is no JSON object leaves q without a prompt: that is the replica's to refuse.
func (q *Ask) Read(body []byte, rules Rules) {
	*q = Ask{Chain: q.Chain[:0], Units: prefix.Unit / BytesOfToken}
	var found [6][]byte // by texts
	own := ""
	fields(body, func(name, value []byte) {
		switch string(name) {
		case "model":
			q.Model = text(value)
		case "stream":
			q.Stream = string(value) == "true"
		case "priority":
			q.Priority, _ = strconv.Atoi(string(value))
		case "cache_salt":
			own = text(value)
		}
		for i, t := range texts {
			if t == string(name) {
				found[i] = value
			}
		}
	})
	seed := prefix.Seed(cmp.Or(q.Model, rules.Base), rules.Tenant, own)
	if rules.Block > 0 && rules.Tenant == "" && own == "" && tokens(q, found[4], seed, rules.Block) {
		return
	}
	n := 0
	for _, value := range found {
		if len(value) < 2 {
			continue
		}
		n += len(value)
		open := bytes.TrimRight(value[:len(value)-1], " \t\r\n") // without the quote or bracket: a longer one begins with it
		from := len(q.Chain)
		q.Chain = prefix.Text(q.Chain, seed, open)
		if whole := len(q.Chain) - from; whole > 0 {
			seed = q.Chain[len(q.Chain)-1]
			open = open[whole*prefix.Unit:]
		}
		seed = prefix.Hash(seed, string(open))
	}
	q.Tokens = n / BytesOfToken
}

// tokens reads a prompt of token ids, if it is one.
func tokens(q *Ask, value []byte, seed prefix.Key, block int) bool {
	inner := bytes.TrimLeft(bytes.TrimPrefix(value, []byte("[")), " \t\r\n")
	if len(value) < 2 || value[0] != '[' || len(inner) == 0 || inner[0] < '0' || inner[0] > '9' {
		return false
	}
	var ids []int32
	if json.Unmarshal(value, &ids) != nil {
		return false
	}
	q.Chain = prefix.Tokens(q.Chain, seed, ids, block)
	q.Tokens, q.Units, q.Blocks = len(ids), block, true
	return true
}

// text is a JSON string's text; "" if it is none.
func text(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	var s string
	_ = json.Unmarshal(value, &s) // what is no string has no text
	return s
}
