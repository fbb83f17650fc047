package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/server"
)

// TestBrowser uses the page as somebody would, with the keyboard: sends, watches the answer come, stops one, asks for
// another, sets the sampling, looks at the engine.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starting a browser takes seconds")
	}
	// Slow enough to be watched: the answer that is stopped would take seven seconds.
	slow := newBrake(1 << 30)
	slow.pace = 5 * time.Millisecond
	h, _ := start(t, ridge.Options{Engine: engine.Options{Recorder: slow}}, server.Options{})
	b := newBrowser(t)
	b.scheme("light")
	b.call("Page.navigate", map[string]any{"url": h.URL}, nil)
	b.until(`document.readyState === "complete" && $("model").textContent === "demo"`)
	b.picture("empty-light")
	if b.eval(`document.activeElement.id`) != "text" {
		t.Error("one cannot type at once")
	}

	// Lengths of the answer as it comes.
	b.eval(`window.lengths = []; new MutationObserver(() => lengths.push(document.querySelector(".assistant:last-of-type")?.textContent.length ?? 0))
		.observe($("messages"), {childList: true, subtree: true, characterData: true}); $("seed").value = 7; $("max_tokens").value = 60`)
	b.typeText("Tell me a story about a fox named Pip")
	b.press("Enter", "Enter", "\r", 13, 0)
	b.until(`conversation.length === 2 && running === null`)
	first, _ := b.eval(`conversation[1].content`).(string)
	if steps, _ := b.eval(`new Set(lengths).size`).(float64); len(first) < 40 || steps < 5 {
		t.Errorf("the answer came in %v steps: %q", steps, first)
	}
	if speed, _ := b.eval(`$("speed").textContent`).(string); !strings.Contains(speed, "60 tokens, ") || !strings.Contains(speed, "tokens/s; prompt ") {
		t.Errorf("speed: %q", speed)
	}

	// Another answer, with the keyboard. The seed makes it the same one, of the length now asked for.
	b.eval(`$("max_tokens").value = 30`)
	b.press("r", "KeyR", "", 82, 1)
	b.until(`running === null && conversation.length === 2`)
	if second, _ := b.eval(`conversation[1].content`).(string); second == first || !strings.HasPrefix(first, second) {
		t.Errorf("%q is not how %q begins", second, first)
	}
	b.picture("answer-light")

	// A new line, then an answer that is stopped. It would be long: end tokens do not end it.
	b.eval(`$("max_tokens").value = 1500; const send = fetch;
		window.fetch = (url, o) => send(url, o.body ? {...o, body: JSON.stringify({...JSON.parse(o.body), ignore_eos: true})} : o)`)
	b.typeText("First line")
	b.press("Enter", "Enter", "\r", 13, 8)
	b.typeText("second line")
	b.press("Enter", "Enter", "\r", 13, 0)
	b.until(`running !== null && document.querySelector(".assistant.waiting")?.textContent.length > 10`)
	b.picture("running-light")
	b.press("Escape", "Escape", "", 27, 0)
	b.until(`running === null && $("stop").disabled && !$("send").disabled`)
	if b.eval(`conversation[2].content`) != "First line\nsecond line" || b.eval(`$("speed").textContent`) != "stopped" {
		t.Errorf("%v, %v", b.eval(`conversation[2]`), b.eval(`$("speed").textContent`))
	}

	// The engine's figures follow, and what was stopped is off it.
	b.until(`before.s.Running === 0 && before.s.Output > 60 && $("steps").querySelector("polyline").getAttribute("points").split(" ").length > 1`)
	if text, _ := b.eval(`$("engine").innerText`).(string); !strings.Contains(text, "pages used") || !strings.Contains(text, "prefix found") {
		t.Errorf("the engine's view: %q", text)
	}
	b.scheme("dark")
	b.picture("stopped-dark")

	// What the server refuses is said.
	b.eval(`$("temperature").value = -3; again()`)
	b.until(`running === null && document.querySelector(".error")?.textContent.includes("temperature")`)
	b.picture("error-dark")
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": true}, nil)
	b.picture("narrow-dark")
	if wide, _ := b.eval(`document.documentElement.scrollWidth`).(float64); wide > 400 {
		t.Errorf("on a narrow screen the page is %v wide", wide)
	}
	b.eval(`$("clear").click()`)
	if b.eval(`conversation.length === 0 && !$("empty").hidden && document.querySelectorAll(".message").length === 0`) != true {
		t.Error("clearing leaves something")
	}
	for _, e := range b.errors {
		if !strings.Contains(e, "400") { // the refusal above
			t.Errorf("the page: %s", e)
		}
	}
}
