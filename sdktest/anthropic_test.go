package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func claude(t *testing.T) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(start(t)), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func messageParams(text string, tokens int64) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{Model: model, MaxTokens: tokens, Temperature: anthropic.Float(0),
		System:   []anthropic.TextBlockParam{{Text: "Be brief."}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))}}
}

func TestAnthropicMessages(t *testing.T) {
	c, ctx := claude(t), context.Background()
	whole, err := c.Messages.New(ctx, messageParams(fox, 20))
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.Content) != 1 || whole.Content[0].AsText().Text == "" || whole.StopReason != "max_tokens" || whole.Usage.OutputTokens != 20 {
		t.Errorf("%s", whole.RawJSON())
	}
	p := messageParams(fox, 20)
	count, err := c.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{Model: p.Model, Messages: p.Messages, System: anthropic.MessageCountTokensParamsSystemUnion{OfTextBlockArray: p.System}})
	if err != nil || count.InputTokens != whole.Usage.InputTokens {
		t.Errorf("%v: %d tokens, and the message had %d", err, count.InputTokens, whole.Usage.InputTokens)
	}
	p.StopSequences = []string{"afternoon"}
	if stopped, err := c.Messages.New(ctx, p); err != nil || stopped.StopReason != "stop_sequence" || stopped.StopSequence != "afternoon" {
		t.Errorf("%v: %+v", err, stopped)
	}
	stream := c.Messages.NewStreaming(ctx, messageParams(fox, 20))
	var sum anthropic.Message
	for stream.Next() {
		if err := sum.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if stream.Err() != nil || len(sum.Content) != 1 || sum.Content[0].AsText().Text != whole.Content[0].AsText().Text || sum.StopReason != "max_tokens" || sum.Usage.OutputTokens != 20 {
		t.Errorf("%v: %+v", stream.Err(), sum)
	}
}

func TestAnthropicTools(t *testing.T) {
	c, ctx := claude(t), context.Background()
	p := messageParams("Name a hero.", 200)
	p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "hero", Strict: anthropic.Bool(true),
		InputSchema: anthropic.ToolInputSchemaParam{Properties: schema["properties"], Required: []string{"name", "brave"}, ExtraFields: map[string]any{"additionalProperties": false}}}}}
	p.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
	stream := c.Messages.NewStreaming(ctx, p)
	var sum anthropic.Message
	for stream.Next() {
		if err := sum.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if stream.Err() != nil || len(sum.Content) == 0 {
		t.Fatalf("%v: %+v", stream.Err(), sum)
	}
	use := sum.Content[0].AsToolUse()
	var h hero
	if sum.StopReason != "tool_use" || use.Name != "hero" || json.Unmarshal(use.Input, &h) != nil || h.Brave == nil {
		t.Errorf("%+v", sum)
	}
	p.Messages = append(p.Messages, sum.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(use.ID, "done", false)))
	p.ToolChoice, p.MaxTokens = anthropic.ToolChoiceUnionParam{OfNone: &anthropic.ToolChoiceNoneParam{}}, 5
	if a, err := c.Messages.New(ctx, p); err != nil || len(a.Content) == 0 {
		t.Errorf("the tool's result: %v", err)
	}
}

func TestAnthropicErrors(t *testing.T) {
	c, ctx := claude(t), context.Background()
	p := messageParams("x", 5)
	p.Model = "claude"
	var e *anthropic.Error
	if _, err := c.Messages.New(ctx, p); !errors.As(err, &e) || e.StatusCode != 404 || e.Type() != "not_found_error" {
		t.Errorf("%v", err)
	}
	if a, err := c.Messages.New(ctx, messageParams("x", 0)); err != nil || a.StopReason != anthropic.StopReasonMaxTokens || a.Usage.OutputTokens != 0 { // the prompt alone is computed, and cached
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := c.Messages.New(ctx, messageParams("x", -1)); !errors.As(err, &e) || e.StatusCode != 400 || e.Type() != "invalid_request_error" {
		t.Errorf("%v", err)
	}
	if _, err := c.Messages.New(ctx, messageParams("x", 5), option.WithAPIKey("wrong")); !errors.As(err, &e) || e.StatusCode != 401 || e.Type() != "authentication_error" {
		t.Errorf("%v", err)
	}
}
