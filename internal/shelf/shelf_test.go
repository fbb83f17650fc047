package shelf

import (
	"regexp"
	"testing"
)

func TestTable(t *testing.T) {
	repo := regexp.MustCompile(`^[A-Za-z0-9-]+/[A-Za-z0-9._-]+$`)
	seen := map[string]bool{}
	for _, m := range All() {
		if seen[m.Name()] || !repo.MatchString(m.Repo) || m.Bytes < 1e8 || m.About == "" {
			t.Errorf("the row %+v", m)
		}
		seen[m.Name()] = true
		if got, ok := Find(m.Name(), 0, false); !ok || got != m {
			t.Errorf("%s is %+v", m.Name(), got)
		}
	}
	if len(seen) < 15 {
		t.Errorf("%d models", len(seen))
	}
}

func TestFind(t *testing.T) {
	const gb = 1e9
	for _, c := range []struct {
		name   string
		memory int64
		gpu    bool
		want   string // "": there is none
		quant  string
		bytes  bool // are known
	}{
		{"llama3.2", 0, false, "llama3.2:3b", "Q4_K_M", true},
		{"llama3.2:latest", 64 * gb, false, "llama3.2:3b", "Q4_K_M", true},
		{"llama3.2", 3 * gb, false, "llama3.2:1b", "Q4_K_M", true},
		{"llama3.2", 1 * gb, false, "llama3.2:1b", "Q4_K_M", true}, // nothing fits: the smallest, whose loading says what would
		{"qwen3", 8 * gb, false, "qwen3:4b", "Q4_K_M", true},
		{"qwen3", 8 * gb, true, "qwen3:8b", "Q4_K_M", true},
		{"qwen3", 512 * gb, false, "qwen3:8b", "Q4_K_M", true}, // no more than is usual
		{"Qwen3:4B", 0, false, "qwen3:4b", "Q4_K_M", true},
		{"qwen3:4b-q8_0", 0, false, "qwen3:4b", "Q8_0", false},
		{"qwen3:4b-q4_k_m", 0, false, "qwen3:4b", "Q4_K_M", true},
		{"qwen3:5b", 0, false, "", "", false},
		{"llama", 0, false, "", "", false},
	} {
		m, ok := Find(c.name, c.memory, c.gpu)
		if ok != (c.want != "") || ok && (m.Name() != c.want || m.Quant != c.quant || (m.Bytes > 0) != c.bytes) {
			t.Errorf("%s in %d: %+v, %v", c.name, c.memory, m, ok)
		}
	}
}

func TestRecommend(t *testing.T) {
	const gb = 1e9
	for memory, want := range map[int64]string{1 * gb: "", 4 * gb: "llama3.2:1b", 8 * gb: "qwen3:4b", 16 * gb: "qwen3:14b", 24 * gb: "gpt-oss:20b", 64 * gb: "qwen3:30b"} {
		m, ok := Recommend(memory, false)
		if ok != (want != "") || ok && m.Name() != want {
			t.Errorf("%d: %s, %v; want %s", memory, m.Name(), ok, want)
		}
	}
}

func TestLike(t *testing.T) {
	if got := Like("llama9"); len(got) < 3 {
		t.Errorf("like llama9: %q", got)
	}
	if got := Like("hello"); len(got) != 0 {
		t.Errorf("like hello: %q", got)
	}
	if got := Search([]string{"code", "30b"}); len(got) != 1 || got[0].Name() != "qwen3-coder:30b" {
		t.Errorf("search: %+v", got)
	}
}
