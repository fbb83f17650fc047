package chat

import (
	"crypto/sha256"
	"encoding/base32"
)

// CallForm is how a style writes calls, as the text around the names and arguments:
//
//	Begin  Open name Middle arguments Close  Between  Open name Middle arguments Close  End
type CallForm struct {
	Begin, Open, Middle, Close, Between, End string
	Single                                   bool // one call ends the answer
	Compact                                  bool // arguments are written without spaces
}

// Form is how models of this style write calls; ok is false for NoTools, and for styles without JSON.
func (t ToolStyle) Form() (f CallForm, ok bool) {
	const open, middle = `{"name": "`, `", "arguments": `
	switch t {
	case Hermes:
		return CallForm{Open: hermesBegin + "\n" + open, Middle: middle, Close: "}\n" + hermesEnd, Between: "\n"}, true
	case Llama3:
		return CallForm{Open: open, Middle: `", "parameters": `, Close: "}", Between: "; "}, true
	case Mistral:
		return CallForm{Begin: mistralBegin + "[", Open: open, Middle: middle, Close: "}", Between: ", ", End: "]"}, true
	case Devstral:
		return CallForm{Open: mistralBegin, Middle: mistralArgs}, true
	case DeepSeek:
		return CallForm{Begin: deepSeekBegin, Open: deepSeekCallBegin, Middle: deepSeekSep, Close: deepSeekCallEnd, End: deepSeekEnd}, true
	case R1:
		return CallForm{Begin: deepSeekBegin, Open: deepSeekCallBegin + "function" + deepSeekSep, Middle: "\n" + deepSeekFence,
			Close: "\n```" + deepSeekCallEnd, Between: "\n", End: deepSeekEnd}, true
	case Harmony:
		return CallForm{Open: harmonyChannel + "commentary to=functions.", Middle: " <|constrain|>json" + harmonyMessage, Single: true, Compact: true}, true
	}
	return CallForm{}, false
}

// CallID makes the id of a call from a text that no other call has. The templates of Mistral's models take nothing but
// nine letters and digits.
func (t ToolStyle) CallID(unique string) string {
	if t != Mistral && t != Devstral {
		return "call_" + unique
	}
	sum := sha256.Sum256([]byte(unique))
	return base32.StdEncoding.EncodeToString(sum[:])[:9]
}

// Trigger is the text in an answer behind which there is a call; "" for the styles in which calls are the whole answer.
func (t ToolStyle) Trigger() string {
	if t == Llama3 {
		return ""
	}
	return t.opening()
}

// The messages of Harmony that come before an answer, and where its content begins.
const (
	HarmonyThought   = harmonyChannel + "analysis" + harmonyMessage   // …
	HarmonyPreamble  = harmonyChannel + "commentary" + harmonyMessage // …
	HarmonyNext      = harmonyEnd + harmonyStart + "assistant"        // ends a message where another follows
	HarmonyFinal     = harmonyChannel + "final" + harmonyMessage
	HarmonyFinalJSON = harmonyChannel + "final <|constrain|>json" + harmonyMessage
)
