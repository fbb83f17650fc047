package server_test

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestBrowser uses the page with the keyboard, as a user does: sends, watches the answer come, asks for another, changes a message, stops an answer, looks
// at prices and the engine, comes back later, searches. The engine stands still while the page is to be seen in the middle of an answer.
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
	b.until(`document.readyState === "complete" && document.getElementById("models").value === "demo"`)
	b.eval(`$ = id => document.getElementById(id)`)
	b.picture("empty-light")
	if b.eval(`document.activeElement.id`) != "text" {
		t.Error("one cannot type at once")
	}
	b.watchAnswers(held)
	b.branches()
	b.stopAnswer(held)
	b.scheme("dark")
	b.picture("stopped-dark")
	b.refusals()
	b.comeBack(h.URL)
	b.markdown()
	for _, e := range b.errors {
		if !strings.Contains(e, "400") { // of refusals
			t.Errorf("the page: %s", e)
		}
	}
}

// TestBrowserElsewhere: the page works where it comes by plain HTTP from another host, which browsers give less to than to pages from this one.
func TestBrowserElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("starting a browser takes seconds")
	}
	h, _ := start(t, ridge.Options{}, server.Options{Hosts: []string{"ridge.test"}})
	b := newBrowser(t, "--host-resolver-rules=MAP ridge.test 127.0.0.1", "--disable-features=HttpsUpgrades")
	b.call("Page.navigate", map[string]any{"url": strings.Replace(h.URL, "127.0.0.1", "ridge.test", 1)}, nil)
	b.until(`document.readyState === "complete" && document.getElementById("models").value === "demo"`)
	b.eval(`$ = id => document.getElementById(id)`)
	if b.eval(`isSecureContext`) != false {
		t.Fatal("the browser takes the page for one of this host")
	}
	b.set("max_tokens", "10")
	b.send("Tell me a story")
	b.until(idle + ` && document.querySelectorAll("article footer").length === 2`)
	b.eval(`document.addEventListener("copy", () => { copied = document.activeElement.value })`)
	b.eval(`document.querySelector(".user footer button[title^=Copy]").click()`)
	if got := b.eval(`copied`); got != "Tell me a story" {
		t.Errorf("%q was copied", got)
	}
	for _, e := range b.errors {
		t.Errorf("the page: %s", e)
	}
}

const (
	idle = `document.body.dataset.busy === "no"`
	busy = `document.body.dataset.busy === "yes"`
	// grown is true in the page while an answer is under way and a part of it can be read.
	grown = busy + ` && document.querySelector(".assistant.waiting .text")?.textContent.length > 10`
	// lastAnswer is the text of the last answer.
	lastAnswer = `[...document.querySelectorAll(".assistant .text")].at(-1).textContent`
)

// set fills a setting in, as typing does.
func (b *browser) set(id string, value string) {
	b.eval(`$("` + id + `").value = "` + value + `"; $("` + id + `").dispatchEvent(new Event("input"))`)
}

// send types a message and sends it.
func (b *browser) send(text string) {
	b.eval(`$("text").focus()`)
	b.typeText(text)
	b.press("Enter", "Enter", "\r", 13, 0)
}

// watchAnswers asks for an answer, which can be seen as it comes, looks at its price, and asks for another with the keyboard.
func (b *browser) watchAnswers(held *brake) {
	b.t.Helper()
	b.set("seed", "7")
	b.set("max_tokens", "60")
	held.hold(20)
	b.send("Tell me a story about a fox named Pip")
	b.until(grown)
	held.release()
	b.until(idle)
	first, _ := b.eval(lastAnswer).(string)
	if len(first) < 40 {
		b.t.Errorf("the answer is %q", first)
	}
	b.eval(`document.querySelector("details.figures").open = true`)
	if figures, _ := b.eval(`document.querySelector(".figures").innerText`).(string); !strings.Contains(figures, "60 tokens, ") || !strings.Contains(figures, "tokens/s; first after ") ||
		!strings.Contains(figures, "decode: ") || !strings.Contains(figures, "at the limits of the device") {
		b.t.Errorf("the figures of an answer: %q", figures)
	}
	if fill, _ := b.eval(`$("fill").textContent`).(string); !strings.Contains(fill, " of 2048 tokens") {
		b.t.Errorf("the context's meter says %q", fill)
	}
	b.picture("price-light")
	// The seed makes the other answer the same one, of the length now asked for.
	b.set("max_tokens", "30")
	b.press("r", "KeyR", "", 82, 1)
	b.until(idle + ` && document.querySelectorAll("article").length === 2 && document.body.innerText.includes("2 of 2")`)
	if second, _ := b.eval(lastAnswer).(string); second == first || !strings.HasPrefix(first, strings.TrimSpace(second)) {
		b.t.Errorf("%q is not how %q begins", second, first)
	}
	b.picture("answer-light")
}

// branches: the first answer is still there, and a changed message stands beside the first one.
func (b *browser) branches() {
	b.t.Helper()
	click := func(name string) {
		b.eval(`[...document.querySelectorAll("footer button")].filter(e => e.getAttribute("aria-label") === "` + name + `").at(-1).click()`)
	}
	second := b.eval(lastAnswer)
	click("Show the one before")
	if b.eval(lastAnswer) == second {
		b.t.Error("the first answer is gone")
	}
	b.eval(`document.querySelector(".user footer button[title^=Edit]").click()`)
	b.eval(`document.querySelector(".edit textarea").value = "Tell me a story about a bear"; document.querySelector(".edit").requestSubmit()`)
	b.until(idle + ` && document.querySelector(".user .text").textContent.includes("bear") && document.querySelector(".user footer").textContent.includes("2 of 2")`)
	b.eval(`document.querySelector(".user footer button").click()`) // back to the fox
	b.until(`document.querySelector(".user .text").textContent.includes("fox")`)
}

// stopAnswer types a message of two lines and stops its answer, which would be long: end tokens do not end it. The engine's
// figures follow.
func (b *browser) stopAnswer(held *brake) {
	b.t.Helper()
	b.set("max_tokens", "1500")
	b.eval(`const send = fetch;
		window.fetch = (url, o) => send(url, o.body ? {...o, body: JSON.stringify({...JSON.parse(o.body), ignore_eos: true})} : o)`)
	held.hold(20)
	b.eval(`$("text").focus()`)
	b.typeText("First line")
	b.press("Enter", "Enter", "\r", 13, 8)
	b.typeText("second line")
	b.press("Enter", "Enter", "\r", 13, 0)
	b.until(grown)
	b.picture("running-light")
	b.press("Escape", "Escape", "", 27, 0)
	b.until(idle + ` && $("stop").disabled && !$("send").disabled`)
	held.release()
	if b.eval(`[...document.querySelectorAll(".user .text")].at(-1).textContent`) != "First line\nsecond line" || b.eval(`[...document.querySelectorAll(".error")].at(-1).textContent`) != "stopped" {
		b.t.Errorf("%v", b.eval(`document.body.innerText`))
	}
	b.until(`$("tiles").textContent.startsWith("0running") && $("steps").querySelector("polyline").getAttribute("points").split(" ").length > 1`)
	if text, _ := b.eval(`$("engine").innerText`).(string); !strings.Contains(text, "pages in use") || !strings.Contains(text, "prefix cache hits") {
		b.t.Errorf("the engine's view: %q", text)
	}
}

// refusals: what the server refuses is said, on a narrow screen too, and does not spoil the next turn.
func (b *browser) refusals() {
	b.t.Helper()
	b.set("temperature", "-3")
	b.send("This fails")
	b.until(idle + ` && [...document.querySelectorAll(".error")].at(-1).textContent.includes("temperature")`)
	b.picture("error-dark")
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 375, "height": 800, "deviceScaleFactor": 1, "mobile": true}, nil)
	b.picture("narrow-dark")
	if wide, _ := b.eval(`document.documentElement.scrollWidth`).(float64); wide > 375 {
		b.t.Errorf("on a narrow screen the page is %v wide", wide)
	}
	b.eval(`$("listing").click()`)
	b.picture("narrow-list-dark")
	b.eval(`$("listing").click()`)
	b.call("Emulation.clearDeviceMetricsOverride", nil, nil)
	b.set("temperature", "")
	b.set("max_tokens", "8")
	b.eval(`window.sent = ""; const before = fetch; window.fetch = (url, o) => { if (o.body) window.sent = o.body; return before(url, o); }`)
	b.send("This works")
	b.until(idle + ` && document.body.innerText.includes("8 tokens")`)
	if sent, _ := b.eval(`window.sent`).(string); strings.Contains(sent, "This fails") || !strings.Contains(sent, "First line") || !strings.Contains(sent, "This works") {
		b.t.Errorf("after a turn that failed the page sent %s", sent)
	}
}

// comeBack: another visit finds the conversations, by their words too, and they can be renamed, exported and imported.
func (b *browser) comeBack(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url + "/?again"}, nil)
	b.until(`location.search === "?again" && document.readyState === "complete" && document.querySelectorAll("nav li").length === 1`)
	b.eval(`$ = id => document.getElementById(id)`)
	b.eval(`document.querySelector("nav li .open").click()`)
	b.until(`document.body.innerText.includes("This works")`)
	for _, c := range []struct {
		text string
		want float64
	}{{"second LINE", 1}, {"no such words", 0}, {"", 1}} {
		b.set("search", c.text)
		if got := b.eval(`document.querySelectorAll("nav li").length`); got != c.want {
			b.t.Errorf("%v conversations have %q, %v do", got, c.text, c.want)
		}
	}
	b.eval(`document.querySelector("nav li button[title=Rename]").click(); document.querySelector("nav li input").value = "Foxes"`)
	b.eval(`document.querySelector("nav li input").blur()`)
	b.until(`document.querySelector("nav li").textContent.startsWith("Foxes")`)
	b.eval(`URL.createObjectURL = blob => { window.exported = blob; return "#"; }; $("export").click()`)
	b.eval(`(async () => { const files = new DataTransfer(); files.items.add(new File([window.exported], "all.json")); $("file").files = files.files; $("file").dispatchEvent(new Event("change")); })()`)
	b.until(`document.querySelectorAll("nav li").length === 2`)
	b.picture("again-dark")
}

// markdown: what answers may have in them is drawn, and nothing of it runs or is fetched.
func (b *browser) markdown() {
	b.t.Helper()
	b.eval(`(async () => {
		const { draw } = await import("/page/markdown.js");
		const e = document.createElement("article");
		e.className = "message assistant";
		e.innerHTML = "<div class=text></div>";
		document.getElementById("messages").replaceChildren(e);
		draw(e.firstChild, "# Title\n\nIt costs $5 and $6. Euler: $e^{i\\pi} = -1$\n\n$$\n\\int_0^1 x^2\\,dx = \\frac13\n$$\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n` + "```go\\nfunc main() { println(\\\"hi\\\") } // say so\\n```" + `\n\n<img src=x onerror=alert(1)> ![p](javascript:alert(1)) ![q](/stats) [l](javascript:alert(1))\n\n- one\n- two");
	})()`)
	for what, expression := range map[string]string{
		"a formula within a line": `document.querySelectorAll("article math").length === 2 && document.querySelectorAll("article math[display=block]").length === 1`,
		"prices":                  `document.querySelector("article").innerText.includes("It costs $5 and $6.")`,
		"a table":                 `document.querySelector("article td.right").textContent === "2"`,
		"code in colours":         `document.querySelector("article .hljs-keyword").textContent === "func"`,
		"HTML as text":            `document.querySelector("article").innerText.includes("<img src=x") && document.querySelectorAll("article img").length === 0`,
		"no scripts in links":     `[...document.querySelectorAll("article a")].every(a => !a.href.startsWith("javascript"))`,
		"a list":                  `document.querySelectorAll("article li").length === 2`,
	} {
		if b.eval(expression) != true {
			b.t.Errorf("Markdown: no %s: %v", what, b.eval(`document.querySelector("article").innerHTML`))
		}
	}
	b.picture("markdown-dark")
}
