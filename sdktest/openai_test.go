package sdktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

func openAI(t *testing.T) openai.Client {
	return openai.NewClient(option.WithBaseURL(start(t)+"/v1/"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func chatParams(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
		Temperature: openai.Float(0), MaxCompletionTokens: openai.Int(24),
	}
}

func TestOpenAIChat(t *testing.T) {
	c, ctx := openAI(t), context.Background()
	p := chatParams(fox)
	p.Logprobs, p.TopLogprobs = openai.Bool(true), openai.Int(2)
	whole, err := c.Chat.Completions.New(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	choice := whole.Choices[0]
	if choice.Message.Content == "" || choice.FinishReason != "length" || whole.Usage.CompletionTokens != 24 || len(choice.Logprobs.Content) != 24 || len(choice.Logprobs.Content[0].TopLogprobs) != 2 {
		t.Errorf("%s", whole.RawJSON())
	}
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.Chat.Completions.NewStreaming(ctx, p)
	var sum openai.ChatCompletionAccumulator
	for stream.Next() {
		if !sum.AddChunk(stream.Current()) {
			t.Fatalf("the SDK cannot add %s", stream.Current().RawJSON())
		}
	}
	if stream.Err() != nil || sum.Choices[0].Message.Content != choice.Message.Content || sum.Usage.CompletionTokens != 24 || sum.Usage.PromptTokensDetails.CachedTokens == 0 {
		t.Errorf("%v: the stream says %q, the whole %q; usage %+v", stream.Err(), sum.Choices[0].Message.Content, choice.Message.Content, sum.Usage)
	}
}

func TestOpenAIStructured(t *testing.T) {
	c := openAI(t)
	p := chatParams("Name a hero.")
	p.MaxCompletionTokens = openai.Int(200)
	p.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "hero", Strict: openai.Bool(true), Schema: schema}}}
	a, err := c.Chat.Completions.New(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	var h hero
	if err := json.Unmarshal([]byte(a.Choices[0].Message.Content), &h); err != nil || h.Brave == nil {
		t.Errorf("%v in %q", err, a.Choices[0].Message.Content)
	}
}

func TestOpenAITools(t *testing.T) {
	c, ctx := openAI(t), context.Background()
	p := chatParams("What is the weather in Paris?")
	p.MaxCompletionTokens = openai.Int(200)
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "hero", Parameters: schema, Strict: openai.Bool(true)})}
	p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	a, err := c.Chat.Completions.New(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	calls := a.Choices[0].Message.ToolCalls
	var h hero
	if a.Choices[0].FinishReason != "tool_calls" || len(calls) == 0 || calls[0].Function.Name != "hero" || json.Unmarshal([]byte(calls[0].Function.Arguments), &h) != nil || h.Brave == nil {
		t.Fatalf("%s", a.RawJSON())
	}
	p.Messages = append(p.Messages, a.Choices[0].Message.ToParam(), openai.ToolMessage("Rain.", calls[0].ID))
	p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")}
	p.MaxCompletionTokens = openai.Int(5)
	if a, err = c.Chat.Completions.New(ctx, p); err != nil || a.Choices[0].Message.Content == "" {
		t.Errorf("the tool's result: %v %+v", err, a)
	}
}

func TestOpenAIErrors(t *testing.T) {
	c, ctx := openAI(t), context.Background()
	p := chatParams("x")
	p.Temperature = openai.Float(-1)
	var e *openai.Error
	if _, err := c.Chat.Completions.New(ctx, p); !errors.As(err, &e) || e.StatusCode != 400 || e.Type != "invalid_request_error" || !strings.Contains(e.Message, "temperature is -1") {
		t.Errorf("%v", err)
	}
	p = chatParams("x")
	p.Model = "gpt-5"
	if _, err := c.Chat.Completions.New(ctx, p); !errors.As(err, &e) || e.StatusCode != 404 || e.Code != "model_not_found" || e.Param != "model" {
		t.Errorf("%v", err)
	}
	stream := c.Chat.Completions.NewStreaming(ctx, p)
	if stream.Next() || !errors.As(stream.Err(), &e) || e.StatusCode != 404 {
		t.Errorf("%v", stream.Err())
	}
	if _, err := c.Models.Get(ctx, model, option.WithAPIKey("wrong")); !errors.As(err, &e) || e.StatusCode != 401 {
		t.Errorf("%v", err)
	}
	if m, err := c.Models.Get(ctx, model); err != nil || m.ID != model {
		t.Errorf("%v %v", m, err)
	}
}

func TestOpenAIEmbeddings(t *testing.T) {
	c := openAI(t)
	for _, format := range []openai.EmbeddingNewParamsEncodingFormat{"float"} {
		a, err := c.Embeddings.New(context.Background(), openai.EmbeddingNewParams{
			Model: model, EncodingFormat: format, Dimensions: openai.Int(16), Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a fox", "a page"}}})
		if err != nil || len(a.Data) != 2 || len(a.Data[1].Embedding) != 16 || a.Data[1].Index != 1 || a.Usage.PromptTokens == 0 {
			t.Errorf("%v %+v", err, a)
		}
	}
}

func TestOpenAICompletions(t *testing.T) {
	c := openAI(t)
	a, err := c.Completions.New(context.Background(), openai.CompletionNewParams{Model: model, Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Once upon a time")},
		MaxTokens: openai.Int(8), Temperature: openai.Float(0), Echo: openai.Bool(true)})
	if err != nil || !strings.HasPrefix(a.Choices[0].Text, "Once upon a time there was") {
		t.Errorf("%v %+v", err, a)
	}
}

func TestOpenAIResponses(t *testing.T) {
	c, ctx := openAI(t), context.Background()
	p := responses.ResponseNewParams{Model: model, Instructions: openai.String("Be brief."), Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(fox)},
		Temperature: openai.Float(0), MaxOutputTokens: openai.Int(20), Store: openai.Bool(false)}
	whole, err := c.Responses.New(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if whole.OutputText() == "" || whole.Status != "incomplete" || whole.IncompleteDetails.Reason != "max_output_tokens" || whole.Usage.OutputTokens != 20 {
		t.Errorf("%s", whole.RawJSON())
	}
	stream := c.Responses.NewStreaming(ctx, p)
	text, last, number := "", "", int64(0)
	for stream.Next() {
		e := stream.Current()
		if e.SequenceNumber != number {
			t.Errorf("event %s has number %d and is the %dth", e.Type, e.SequenceNumber, number)
		}
		number++
		if last = e.Type; e.Type == "response.output_text.delta" {
			text += e.AsResponseOutputTextDelta().Delta
		}
	}
	if stream.Err() != nil || text != whole.OutputText() || last != "response.incomplete" {
		t.Errorf("%v: %q ends with %s", stream.Err(), text, last)
	}

	p.MaxOutputTokens = openai.Int(200)
	p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "hero", Parameters: schema, Strict: openai.Bool(true)}}}
	p.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsRequired)}
	called, err := c.Responses.New(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	call := called.Output[0].AsFunctionCall()
	var h hero
	if call.Name != "hero" || call.CallID == "" || json.Unmarshal([]byte(call.Arguments), &h) != nil || h.Brave == nil {
		t.Errorf("%s", called.RawJSON())
	}
	result := responses.ResponseInputItemParamOfFunctionCallOutput("done")
	result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage(fox, "user"),
		responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name),
		result,
	}}
	p.ToolChoice, p.MaxOutputTokens = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsNone)}, openai.Int(5)
	if a, err := c.Responses.New(ctx, p); err != nil || a.OutputText() == "" {
		t.Errorf("the tool's result: %v", err)
	}
	p.PreviousResponseID = openai.String("resp_1")
	var e *openai.Error
	if _, err := c.Responses.New(ctx, p); !errors.As(err, &e) || e.StatusCode != 400 || e.Param != "previous_response_id" {
		t.Errorf("%v", err)
	}
}

// TestOpenAIKeptResponses: a response is read again, gone on from, and deleted.
func TestOpenAIKeptResponses(t *testing.T) {
	c, ctx := openAI(t), context.Background()
	p := responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(fox)}, MaxOutputTokens: openai.Int(8)}
	first, err := c.Responses.New(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Responses.Get(ctx, first.ID, responses.ResponseGetParams{}); err != nil || again.OutputText() != first.OutputText() || again.OutputText() == "" {
		t.Errorf("%v %+v", err, again)
	}
	p.PreviousResponseID = openai.String(first.ID)
	second, err := c.Responses.New(ctx, p)
	if err != nil || second.PreviousResponseID != first.ID || second.Usage.InputTokens <= first.Usage.InputTokens {
		t.Fatalf("%v %s", err, second.RawJSON())
	}
	var texts []string
	items := c.Responses.InputItems.ListAutoPaging(ctx, second.ID, responses.InputItemListParams{Limit: openai.Int(2), Order: "asc"})
	for items.Next() {
		for _, part := range items.Current().AsMessage().Content {
			texts = append(texts, part.Text)
		}
	}
	if items.Err() != nil || len(texts) != 3 || texts[0] != fox || texts[1] != first.OutputText() || texts[2] != fox {
		t.Errorf("%v %q", items.Err(), texts)
	}
	if err := c.Responses.Delete(ctx, first.ID); err != nil {
		t.Error(err)
	}
	var e *openai.Error
	if _, err := c.Responses.Get(ctx, first.ID, responses.ResponseGetParams{}); !errors.As(err, &e) || e.StatusCode != 404 {
		t.Errorf("a deleted response: %v", err)
	}
}

func TestOpenAIBatch(t *testing.T) {
	c, ctx := openAI(t), context.Background()
	var input bytes.Buffer
	for i := range 3 {
		fmt.Fprintf(&input, `{"custom_id": "%d", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "demo", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}}`+"\n", i)
	}
	f, err := c.Files.New(ctx, openai.FileNewParams{File: openai.File(&input, "in.jsonl", "application/jsonl"), Purpose: openai.FilePurposeBatch})
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Batches.New(ctx, openai.BatchNewParams{InputFileID: f.ID, Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions, CompletionWindow: openai.BatchNewParamsCompletionWindow24h})
	for end := time.Now().Add(2 * time.Minute); err == nil && b.Status != openai.BatchStatusCompleted && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		b, err = c.Batches.Get(ctx, b.ID)
	}
	if err != nil || b.RequestCounts.Completed != 3 {
		t.Fatalf("%v %+v", err, b)
	}
	out, err := c.Files.Content(ctx, b.OutputFileID)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	if data, err := io.ReadAll(out.Body); err != nil || strings.Count(string(data), `"status_code":200`) != 3 {
		t.Errorf("%v %s", err, data)
	}
	pages := c.Batches.ListAutoPaging(ctx, openai.BatchListParams{Limit: openai.Int(1)})
	if !pages.Next() || pages.Current().ID != b.ID || pages.Next() {
		t.Errorf("%v %+v", pages.Err(), pages.Current())
	}
	if d, err := c.Files.Delete(ctx, f.ID); err != nil || !d.Deleted {
		t.Errorf("%v %+v", err, d)
	}
}

// TestOpenAIEcho: the log-probabilities of a prompt, as programs that score texts ask for them. The first token has null, with which the SDK drops top_logprobs.
func TestOpenAIEcho(t *testing.T) {
	c := openAI(t)
	a, err := c.Completions.New(context.Background(), openai.CompletionNewParams{
		Model: model, Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Once upon a time")},
		MaxTokens: openai.Int(0), Echo: openai.Bool(true), Logprobs: openai.Int(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	if l := a.Choices[0].Logprobs; a.Choices[0].Text != "Once upon a time" || len(l.Tokens) != 4 || len(l.TokenLogprobs) != 4 || l.TokenLogprobs[3] >= 0 {
		t.Errorf("%s", a.RawJSON())
	}
}
