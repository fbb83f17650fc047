package ridge_test

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// anytime calls every exported method of a model but Close and Wait, as a server may whose client came before the model was unloaded. It returns why requests were refused.
func anytime(t *testing.T, m *ridge.Model) (refused []error) {
	ctx, p := context.Background(), ridge.Greedy()
	p.MaxTokens, p.Adapters = 2, []ridge.UseAdapter{{Name: "pirate", Scale: 1}}
	request := chat.Request{Messages: []chat.Message{{Role: "user", Content: "Hi"}}}
	text := func(_ string, err error) { refused = append(refused, err) }
	calls := map[string]func(){
		"About":              func() { m.About() },
		"AddAdapterDir":      func() { m.AddAdapterDir("adapters") },
		"Adapters":           func() { m.Adapters() },
		"Breakers":           func() { m.Breakers([]string{"\n"}) },
		"CanCallTools":       func() { m.CanCallTools() },
		"CanChat":            func() { m.CanChat() },
		"CanInfill":          func() { m.CanInfill() },
		"Chat":               func() { text(ridge.Text(m.Chat(ctx, request.Messages, p))) },
		"ChatRequest":        func() { text(ridge.Text(m.ChatRequest(ctx, request, p))) },
		"Compares":           func() { m.Compares() },
		"Constrain":          func() { m.Constrain(ctx, ridge.Regex("[a-z]+")) },
		"ConstrainReply":     func() { m.ConstrainReply(ctx, "", ridge.Reply{}) },
		"Context":            func() { m.Context() },
		"Decode":             func() { m.Decode([]int32{1}) },
		"Defaults":           func() { m.Defaults() },
		"Device":             func() { m.Device() },
		"Drain":              func() { m.Drain(ctx) },
		"EarlyExits":         func() { m.EarlyExits() },
		"Embed":              func() { _, err := m.Embed(ctx, "a"); text("", err) },
		"EmbedTokens":        func() { _, err := m.EmbedTokens(ctx, []int32{1}, p); text("", err) },
		"Encode":             func() { m.Encode("a", true) },
		"EncodeInfill":       func() { m.EncodeInfill(ridge.Infill{Prefix: "a"}) },
		"EncodeInput":        func() { m.EncodeInput("a", true) },
		"EncodePair":         func() { m.EncodePair("a", "b", 8) },
		"EncodePrompt":       func() { m.EncodePrompt(chat.Prompt{}) },
		"EncodePromptInput":  func() { m.EncodePromptInput(chat.Prompt{}) },
		"EncodeStart":        func() { m.EncodeStart("a", true, 8) },
		"Encoder":            func() { m.Encoder() },
		"Ends":               func() { m.Ends() },
		"Err":                func() { m.Err() },
		"ExpertCaching":      func() { m.ExpertCaching() },
		"Explain":            func() { m.Explain(&ridge.Finish{}) },
		"FillsIn":            func() { m.FillsIn() },
		"Generate":           func() { text(ridge.Text(m.Generate(ctx, "Once", p))) },
		"GenerateEmbeddings": func() { text(ridge.Text(m.GenerateEmbeddings(ctx, make([]float32, m.Width()), p))) },
		"GenerateMany":       func() { m.GenerateMany(ctx, []int32{1}, []ridge.Params{p, p}) },
		"HasAdapter":         func() { m.HasAdapter("pirate") },
		"LoadAdapter":        func() { m.LoadAdapter("pirate", filepath.Join("adapters", "pirate"), true) },
		"MaxAdapters":        func() { m.MaxAdapters() },
		"Memory":             func() { m.Memory() },
		"Name":               func() { m.Name() },
		"OnStep":             func() { m.OnStep(func(ridge.Step) {}) },
		"Parallel":           func() { m.Parallel() },
		"PriceStats":         func() { m.PriceStats() },
		"Prompt":             func() { m.Prompt(ctx, request) },
		"Quantization":       func() { m.Quantization() },
		"Queue":              func() { m.Queue() },
		"ReadEmbeddings":     func() { m.ReadEmbeddings(nil) },
		"Render":             func() { m.Render(ctx, request) },
		"Replaced":           func() { m.Replaced() },
		"Score":              func() { m.Score(ctx, ridge.Pair{}, p) },
		"SpecialTokens":      func() { m.SpecialTokens() },
		"Stats":              func() { m.Stats() },
		"Steps":              func() { m.Steps(3) },
		"Style":              func() { m.Style() },
		"Token":              func() { m.Token(1) },
		"UnloadAdapter":      func() { m.UnloadAdapter("router") },
		"Vocab":              func() { m.Vocab() },
		"Width":              func() { m.Width() },
	}
	for i := range reflect.TypeOf(m).NumMethod() {
		switch name := reflect.TypeOf(m).Method(i).Name; {
		case calls[name] != nil:
			calls[name]()
		case name != "Close" && name != "Wait":
			t.Errorf("what Model.%s does while the model is closed is not tried", name)
		}
	}
	return refused
}

// TestClosing: while a model is closed, and afterwards, all of its methods return, and requests end with ErrClosed.
func TestClosing(t *testing.T) {
	o := ridge.Options{Threads: 1, MaxLoRAs: 2, Context: 64, Parallel: 2, KVTransfer: ridge.KVTransfer{Secret: "a secret of sixteen bytes", Listen: "127.0.0.1:0"}}
	m, err := ridge.Load(modelFile(t, ""), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.AddAdapterDir("adapters"); err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() { anytime(t, m) })
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	callers.Wait()
	for i, err := range anytime(t, m) {
		if !errors.Is(err, ridge.ErrClosed) {
			t.Errorf("request %d of a closed model ended with %v", i, err)
		}
	}
}
