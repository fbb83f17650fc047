package chat

// CallForm is how a style writes calls, as the text around the names and arguments:
//
//	Begin  Open name Middle arguments Close  Between  Open name Middle arguments Close  End
type CallForm struct {
	Begin, Open, Middle, Close, Between, End string
	Single                                   bool // one call ends the answer
	Compact                                  bool // arguments are written without spaces
}

// Form is how models of this style write calls; ok is false for NoTools.
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
