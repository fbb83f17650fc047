package task

import (
	"reflect"
	"strings"
	"testing"
)

// TestRead: each format gives the prompt and the choices that lm-evaluation-harness makes of it.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		task, file, data string
		want             Question
	}{
		{"hellaswag", "a.jsonl", `{"ind": 24, "activity_label": "Roof shingle removal", "ctx_a": "A man is sitting on a roof.", "ctx_b": "he", "ctx": "A man is sitting on a roof. he", "endings": ["is using wrap [step] to wrap.", "is ripping  tiles.", "a", "b"], "label": 1}`,
			Question{Context: "Roof shingle removal: A man is sitting on a roof. He", Choices: []string{" is using wrap to wrap.", " is ripping tiles.", " a", " b"}, Right: 1}},
		{"hellaswag", "b.jsonl", `{"activity_label": "Work", "ctx_a": "How to dry [header] [title] Do it. [step] Go.", "ctx_b": "", "endings": ["x", "y [title] z"], "label": "0"}`,
			Question{Context: "Work: How to dry . Do it. Go.", Choices: []string{" x", " y. z"}}},
		{"hellaswag", "c.txt", "The man\n2\na\nb\nc\nd\n", Question{Context: "The man", Choices: []string{" a", " b", " c", " d"}, Right: 2}},
		{"arc", "d.jsonl", `{"id": "M1", "question": {"stem": "Why?", "choices": [{"text": "so", "label": "A"}, {"text": "no", "label": "B"}]}, "answerKey": "B"}`,
			Question{Context: "Question: Why?\nAnswer:", Choices: []string{" so", " no"}, Right: 1}},
		{"arc", "e.jsonl", `{"id": "M1", "question": "Why?", "choices": {"text": ["so", "no", "on"], "label": ["1", "2", "3"]}, "answerKey": "3"}`,
			Question{Context: "Question: Why?\nAnswer:", Choices: []string{" so", " no", " on"}, Right: 2}},
		{"mmlu", "x/abstract_algebra_test.csv", "\"Find, x\",0,4,2,6,C\n",
			Question{Context: "Find, x\nA. 0\nB. 4\nC. 2\nD. 6\nAnswer:", Choices: []string{" A", " B", " C", " D"}, Right: 2, Group: "abstract_algebra"}},
		{"mmlu", "f.jsonl", `{"question": " Q? ", "subject": "anatomy", "choices": ["a", "b", "c", "d"], "answer": 3}`,
			Question{Context: "Q?\nA. a\nB. b\nC. c\nD. d\nAnswer:", Choices: []string{" A", " B", " C", " D"}, Right: 3, Group: "anatomy"}},
	} {
		b, ok := ByName(c.task)
		if !ok {
			t.Fatal(c.task)
		}
		all, err := b.Read(c.file, []byte(c.data))
		if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], c.want) {
			t.Errorf("%s: %v\n%+v\nwanted\n%+v", c.file, err, all, c.want)
		}
	}
}

// TestReadBad: what is not a question is refused with the file, the line and the reason.
func TestReadBad(t *testing.T) {
	for _, c := range []struct{ task, file, data, want string }{
		{"hellaswag", "a.jsonl", "", "a.jsonl has no questions"},
		{"hellaswag", "a.jsonl", `{"endings": ["x", "y"], "label": ""}`, "a.jsonl, line 1: label is"},
		{"hellaswag", "a.jsonl", "\n" + `{"endings": ["x", "y"], "label": 2}`, "line 2: the question has 2 choices, and number 2"},
		{"hellaswag", "a.jsonl", `{"endings": ["x", ""], "label": 0}`, "line 1: choice 1 is empty"},
		{"hellaswag", "a.txt", "c\n0\na\nb\nc\nd\nmore", "line 7: the question has 1 lines"},
		{"hellaswag", "a.txt", "c\nx\na\nb\nc\nd", `line 2: "x" is to be the number`},
		{"arc", "a.jsonl", `{"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "C"}`, `line 1: answerKey is "C"`},
		{"arc", "a.jsonl", `{"question": 5}`, "line 1: question is neither"},
		{"arc", "a.jsonl", `{"question": `, "line 1: unexpected end"},
		{"mmlu", "a.csv", "q,1,2,3,A\n", "wrong number of fields"},
		{"mmlu", "a.csv", "q,1,2,3,4,E\n", "a.csv, line 1: the question has 4 choices, and number -1"},
		{"mmlu", "a.jsonl", `{"question": "q", "choices": ["a"], "answer": 0}`, "line 1: the question has 1 choices; those of MMLU have 4"},
	} {
		b, _ := ByName(c.task)
		if all, err := b.Read(c.file, []byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, %v; wanted %q", c.task, c.data, all, err, c.want)
		}
	}
}

// TestPrompt: examples are those of the question's subject.
func TestPrompt(t *testing.T) {
	b, _ := ByName("mmlu")
	row := func(subject, q string) Question {
		x := mmlu{Question: q, Subject: subject, Choices: []string{"a", "b", "c", "d"}, Answer: 1}
		made, err := x.question()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	examples := []Question{row("law", "L1"), row("us_history", "H1"), row("us_history", "H2")}
	q := row("us_history", "Q")
	got, err := b.Prompt(&q, examples, 1)
	const four = "\nA. a\nB. b\nC. c\nD. d\nAnswer:"
	want := "The following are multiple choice questions (with answers) about us history.\n\nH1" + four + " B\n\nQ" + four
	if err != nil || got != want {
		t.Errorf("%q, %v; wanted %q", got, err, want)
	}
	if _, err := b.Prompt(&q, examples, 3); err == nil || !strings.Contains(err.Error(), "2 questions of us_history, and 3") {
		t.Error(err)
	}
}

func TestGSM8K(t *testing.T) {
	all, err := ReadGSM8K("g.jsonl", []byte(`{"question": "How much?", "answer": "2 * 500 = <<2*500=1000>>1,000\n#### 1,000"}`))
	if err != nil || len(all) != 1 || all[0].Right() != "1000" {
		t.Fatal(all, err)
	}
	if got := all[0].Prompt(all); got != "Question: How much?\nAnswer: 2 * 500 = <<2*500=1000>>1,000\n#### 1,000\n\nQuestion: How much?\nAnswer:" {
		t.Errorf("%q", got)
	}
	for _, c := range []struct{ answer, marked, last string }{
		{"It is 3.\n#### 1,000", "1000", "1000"},
		{"She pays $1,250.00. Then 5.", "", "5"},
		{"so -12 remain", "", "-12"},
		{"nothing", "", ""},
		{"#### 7.", "7", "7"},
	} {
		if m, l := Marked(c.answer), Last(c.answer); m != c.marked || l != c.last {
			t.Errorf("%q: %q and %q; wanted %q and %q", c.answer, m, l, c.marked, c.last)
		}
	}
	if _, err := ReadGSM8K("g.jsonl", []byte(`{"question": "q", "answer": "5"}`)); err == nil || !strings.Contains(err.Error(), "g.jsonl, line 1") {
		t.Error(err)
	}
}
