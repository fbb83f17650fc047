package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func parseComponent(t testing.TB, text string) *component {
	t.Helper()
	c := &component{}
	if err := json.Unmarshal([]byte(text), c); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

func TestNormalizers(t *testing.T) {
	for _, c := range []struct{ component, in, want string }{
		{`{"type":"NFC"}`, "e\u0301 ﬁ", "é ﬁ"},
		{`{"type":"NFD"}`, "é", "e\u0301"},
		{`{"type":"NFKC"}`, "ﬁ ½ ①", "fi 1⁄2 1"},
		{`{"type":"NFKD"}`, "ﬁé", "fie\u0301"},
		{`{"type":"NFC"}`, "a" + strings.Repeat("\u0316", 40) + "\u0301", "á" + strings.Repeat("\u0316", 40)}, // no U+034F put in
		{`{"type":"NFD"}`, "á" + strings.Repeat("\u0316", 40), "a" + strings.Repeat("\u0316", 40) + "\u0301"},
		{`{"type":"Lowercase"}`, "ÀBC İΣ", "àbc i\u0307σ"},
		{`{"type":"StripAccents"}`, "e\u0301a\u0903", "ea"},
		{`{"type":"Strip","strip_left":true,"strip_right":false}`, " \u3000a ", "a "},
		{`{"type":"Strip","strip_left":true,"strip_right":true}`, "\n a\t", "a"},
		{`{"type":"Prepend","prepend":"▁"}`, "a", "▁a"},
		{`{"type":"Prepend","prepend":"▁"}`, "", ""},
		{`{"type":"Replace","pattern":{"String":"''"},"content":"\""}`, "a ''b''", `a "b"`},
		{`{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "}`, "a  b    c", "a b c"},
		{`{"type":"Nmt"}`, "a\u0001b\u200dc\u2581\t", "ab c  "},
		{`{"type":"ByteLevel"}`, "é a", "Ã©Ġa"},
		{`{"type":"BertNormalizer"}`, "Héllo\u0000\tWörld 中文", "hello world  中  文 "},
		{`{"type":"BertNormalizer","lowercase":false,"strip_accents":null}`, "Héllo", "Héllo"},
		{`{"type":"BertNormalizer","lowercase":false,"strip_accents":true}`, "Héllo", "Hello"},
		{`{"type":"BertNormalizer","handle_chinese_chars":false}`, "中\u200b文\u00ad", "中文"},
		{`{"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"},{"type":"Lowercase"}]}`, "ÉA", "ea"},
	} {
		n, err := parseComponent(t, c.component).normalizer()
		if err != nil {
			t.Errorf("%s: %v", c.component, err)
		} else if got := n.normalize(c.in); got != c.want {
			t.Errorf("%s: %q became %q, want %q", c.component, c.in, got, c.want)
		}
	}
}

func TestPreTokenizers(t *testing.T) {
	const words = `"pattern":{"Regex":"\\w+|[^\\w\\s]+"},"invert":true`
	for _, c := range []struct {
		component, in string
		want          []string
	}{
		{`{"type":"Split",` + words + `,"behavior":"Removed"}`, "How are you doing?", []string{"How", "are", "you", "doing", "?"}},
		{`{"type":"Split",` + words + `,"behavior":"Isolated"}`, "How are?", []string{"How", " ", "are", "?"}},
		{`{"type":"Split",` + words + `,"behavior":"MergedWithPrevious"}`, "How are you doing?", []string{"How ", "are ", "you ", "doing", "?"}},
		{`{"type":"Split",` + words + `,"behavior":"MergedWithNext"}`, "How are you doing?", []string{"How", " are", " you", " doing", "?"}},
		{`{"type":"Split",` + words + `,"behavior":"Contiguous"}`, "How are you doing?", []string{"How", " ", "are", " ", "you", " ", "doing?"}},
		{`{"type":"Split","pattern":{"String":"-"},"behavior":"Removed"}`, "The-final--countdown", []string{"The", "final", "countdown"}},
		{`{"type":"Split","pattern":{"String":"-"},"behavior":"Isolated"}`, "The-final--countdown", []string{"The", "-", "final", "-", "-", "countdown"}},
		{`{"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithPrevious"}`, "The-final--countdown", []string{"The-", "final-", "-", "countdown"}},
		{`{"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithNext"}`, "The-final--countdown", []string{"The", "-final", "-", "-countdown"}},
		{`{"type":"Split","pattern":{"String":"-"},"behavior":"Contiguous"}`, "The-final--countdown", []string{"The", "-", "final", "--", "countdown"}},
		{`{"type":"Split","pattern":{"Regex":"(?=(\\d{3})+(?!\\d))"},"behavior":"Isolated"}`, "1234567", []string{"1", "234", "567"}},
		{`{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}`, "Hey   friend!", []string{"▁Hey", "▁", "▁", "▁friend!"}},
		{`{"type":"Metaspace","replacement":"▁","str_rep":"▁","add_prefix_space":true}`, "Hey", []string{"▁Hey"}},
		{`{"type":"Metaspace","replacement":"▁","add_prefix_space":false}`, "Hey you", []string{"Hey", "▁you"}},
		{`{"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":false}`, "Hey you", []string{"Hey▁you"}},
		{`{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"String":"<s>"},"behavior":"Isolated"},
			{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false}]}`, "Hey <s>how are", []string{"▁Hey▁", "<s>", "how▁are"}},
		{`{"type":"Whitespace"}`, "Hey man! é_2\u200d ...", []string{"Hey", "man", "!", "é_2\u200d", "..."}},
		{`{"type":"WhitespaceSplit"}`, "Hey man,\u3000 Good?", []string{"Hey", "man,", "Good?"}},
		{`{"type":"BertPreTokenizer"}`, "Hey friend!     How are you?!? «x»", []string{"Hey", "friend", "!", "How", "are", "you", "?", "!", "?", "«", "x", "»"}},
		{`{"type":"Digits","individual_digits":true}`, "Hey 123 friend!", []string{"Hey ", "1", "2", "3", " friend!"}},
		{`{"type":"Digits","individual_digits":false}`, "Hey 12½ friend!", []string{"Hey ", "12½", " friend!"}},
		{`{"type":"Punctuation"}`, "Hey friend!     How?!", []string{"Hey friend", "!", "     How", "?", "!"}},
		{`{"type":"Punctuation","behavior":"Contiguous"}`, "a$^b", []string{"a", "$^", "b"}},
		{`{"type":"CharDelimiterSplit","delimiter":"-"}`, "a--b", []string{"a", "b"}},
		{`{"type":"FixedLength","length":2}`, "日本語ab", []string{"日本", "語a", "b"}},
		{`{"type":"UnicodeScripts"}`, "どこで生れ。Yes", []string{"どこで生れ", "。", "Yes"}},
		{`{"type":"UnicodeScripts"}`, "Apples are りんご 林檎", []string{"Apples are ", "りんご 林檎"}},
		{`{"type":"ByteLevel","add_prefix_space":true}`, "it's  é", []string{"Ġit", "'s", "Ġ", "ĠÃ©"}},
		{`{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`, "a b", []string{"aĠb"}},
	} {
		pre, err := parseComponent(t, c.component).preTokenizers()
		if err != nil {
			t.Errorf("%s: %v", c.component, err)
			continue
		}
		var got []string
		if err := pre.cut(piece{c.in, true}, func(p piece) bool { got = append(got, p.text); return true }); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q became %q (%v), want %q", c.component, c.in, got, err, c.want)
		}
	}
}

func TestDecoders(t *testing.T) {
	const bytes = `{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
		{"type":"Strip","content":" ","start":1,"stop":0}]}`
	for _, c := range []struct {
		component string
		in        []string
		want      string
	}{
		{`{"type":"ByteLevel"}`, []string{"H", "ell", "oĠ", "Ã", "©", "日"}, "Hello é日"},
		{`{"type":"ByteLevel"}`, []string{"a", "Ã"}, "a\ufffd"},
		{bytes, []string{"▁▁Hey", "<0xE5>", "<0x8f>", "<0xab>", "▁a"}, " Hey叫 a"},
		{bytes, []string{"<0xE5>", "<0x8f>", "a"}, "\ufffd\ufffda"},
		{`{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}`, []string{"▁Hey", "▁friend!"}, "Hey friend!"},
		{`{"type":"Metaspace","replacement":"▁","prepend_scheme":"never"}`, []string{"▁Hey", "▁friend!"}, " Hey friend!"},
		{`{"type":"WordPiece"}`, []string{"##uelo", "Ara", "##új", "##o", "No", "!", "is", "n't"}, "##uelo Araújo No! isn't"},
		{`{"type":"WordPiece","prefix":"##","cleanup":false}`, []string{"a", "##b", "."}, "ab ."},
		{`{"type":"BPEDecoder"}`, []string{"my", "name</w>", "is</w>", "x</w>"}, "myname is x"},
		{`{"type":"CTC","pad_token":"<pad>","word_delimiter_token":"|","cleanup":true}`, strings.Fields("<pad> h e e l l <pad> l o o | w"), "hello w"},
		{`{"type":"Replace","pattern":{"Regex":"_+"},"content":" "}`, []string{"a__", "_b"}, "a  b"},
		{`{"type":"Sequence","decoders":[{"type":"Strip","content":"H","start":1,"stop":0},{"type":"Fuse"}]}`, []string{"HHey", " You"}, "Hey You"},
		{`{"type":"Strip","content":"y","start":0,"stop":2}`, []string{"Heyyy", "y"}, "Hey"},
	} {
		d, err := parseComponent(t, c.component).decoder()
		if err != nil {
			t.Errorf("%s: %v", c.component, err)
		} else if got := strings.Join(d.decode(c.in), ""); got != c.want {
			t.Errorf("%s: %q became %q, want %q", c.component, c.in, got, c.want)
		}
	}
}

// TestStreamsOfAllDecoders decodes the same tokens through a stream.
func TestStreamsOfAllDecoders(t *testing.T) {
	for _, decoder := range []string{
		`null`, `{"type":"ByteLevel"}`, `{"type":"WordPiece"}`, `{"type":"BPEDecoder"}`, `{"type":"CTC","pad_token":"p","word_delimiter_token":"|"}`,
		`{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}`,
		`{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}`,
	} {
		tok, err := FromJSON([]byte(`{"model":{"type":"BPE","merges":[],"vocab":{"a":0,"b</w>":1,"##c":2,"▁":3,"▁d":4,"p":5,"|":6,"Ã":7,"©":8,"<0xC3>":9,"<0xA9>":10,".":11}},"decoder":`+decoder+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, ids := range [][]int32{{}, {0}, {3, 4, 0, 1, 2}, {1, 1, 5, 1, 6, 0}, {7, 8, 0, 7, 8}, {9, 10, 0}, {0, 11, 4, 11}, {4, 3, 3, 4}, {9, 10, 9, 10}} {
			checkStream(t, tok, ids)
		}
	}
}
