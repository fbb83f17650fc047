package server_test

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestBrowser uses the page with the keyboard, as a user does: sends, watches the answer come, asks for another, stops
// one, looks at the engine, sets the sampling, clears. The engine stands still while the page is to be seen in the middle of
// an answer.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starting a browser takes seconds")
	}
	held := newBrake(-1)
	h, m := start(t, ridge.Options{}, server.Options{})
	m.OnStep(held.step)
	t.Cleanup(held.release)
	b := newBrowser(t)
	b.scheme("light")
	b.call("Page.navigate", map[string]any{"url": h.URL}, nil)
	b.until(`document.readyState === "complete" && $("model").textContent === "demo"`)
	b.picture("empty-light")
	if b.eval(`document.activeElement.id`) != "text" {
		t.Error("one cannot type at once")
	}
	b.watchAnswers(held)
	b.stopAnswer(held)
	b.scheme("dark")
	b.picture("stopped-dark")
	b.refusals()
	b.eval(`$("clear").click()`)
	if b.eval(`conversation.length === 0 && !$("empty").hidden && document.querySelectorAll(".message").length === 0`) != true {
		t.Error("clearing leaves something")
	}
	for _, e := range b.errors {
		if !strings.Contains(e, "400") { // of refusals
			t.Errorf("the page: %s", e)
		}
	}
}

// grown is true in the page while an answer is under way and a part of it can be read.
const grown = `running !== null && document.querySelector(".assistant.waiting")?.textContent.length > 10`

// watchAnswers asks for an answer, which can be seen as it comes, and for another with the keyboard.
func (b *browser) watchAnswers(held *brake) {
	b.t.Helper()
	b.eval(`$("seed").value = 7; $("max_tokens").value = 60`)
	held.hold(20)
	b.typeText("Tell me a story about a fox named Pip")
	b.press("Enter", "Enter", "\r", 13, 0)
	b.until(grown)
	held.release()
	b.until(`conversation.length === 2 && running === null`)
	first, _ := b.eval(`conversation[1].content`).(string)
	if len(first) < 40 {
		b.t.Errorf("the answer is %q", first)
	}
	if speed, _ := b.eval(`$("speed").textContent`).(string); !strings.Contains(speed, "60 tokens, ") || !strings.Contains(speed, "tokens/s; prompt ") {
		b.t.Errorf("speed: %q", speed)
	}
	// The seed makes the other answer the same one, of the length now asked for.
	b.eval(`$("max_tokens").value = 30`)
	b.press("r", "KeyR", "", 82, 1)
	b.until(`running === null && conversation.length === 2`)
	if second, _ := b.eval(`conversation[1].content`).(string); second == first || !strings.HasPrefix(first, second) {
		b.t.Errorf("%q is not how %q begins", second, first)
	}
	b.picture("answer-light")
}

// stopAnswer types a message of two lines and stops its answer, which would be long: end tokens do not end it. The engine's
// figures follow.
func (b *browser) stopAnswer(held *brake) {
	b.t.Helper()
	b.eval(`$("max_tokens").value = 1500; const send = fetch;
		window.fetch = (url, o) => send(url, o.body ? {...o, body: JSON.stringify({...JSON.parse(o.body), ignore_eos: true})} : o)`)
	held.hold(20)
	b.typeText("First line")
	b.press("Enter", "Enter", "\r", 13, 8)
	b.typeText("second line")
	b.press("Enter", "Enter", "\r", 13, 0)
	b.until(grown)
	b.picture("running-light")
	b.press("Escape", "Escape", "", 27, 0)
	b.until(`running === null && $("stop").disabled && !$("send").disabled`)
	held.release()
	if b.eval(`conversation[2].content`) != "First line\nsecond line" || b.eval(`$("speed").textContent`) != "stopped" {
		b.t.Errorf("%v, %v", b.eval(`conversation[2]`), b.eval(`$("speed").textContent`))
	}
	b.until(`before.s.Running === 0 && before.s.Output > 60 && $("steps").querySelector("polyline").getAttribute("points").split(" ").length > 1`)
	if text, _ := b.eval(`$("engine").innerText`).(string); !strings.Contains(text, "pages in use") || !strings.Contains(text, "prefix cache hits") {
		b.t.Errorf("the engine's view: %q", text)
	}
}

// refusals: what the server refuses is said, on a narrow screen too.
func (b *browser) refusals() {
	b.t.Helper()
	b.eval(`$("temperature").value = -3; again()`)
	b.until(`running === null && document.querySelector(".error")?.textContent.includes("temperature")`)
	b.picture("error-dark")
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": true}, nil)
	b.picture("narrow-dark")
	if wide, _ := b.eval(`document.documentElement.scrollWidth`).(float64); wide > 400 {
		b.t.Errorf("on a narrow screen the page is %v wide", wide)
	}
}
