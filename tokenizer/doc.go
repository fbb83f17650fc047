// Package tokenizer turns text into token ids and ids back into text, exactly as the Hugging Face `tokenizers` library
// (0.23) does for a tokenizer.json, and as llama.cpp does for the vocabulary of a GGUF file.
//
// Text takes one road, whatever the kind of vocabulary:
//
//	text ─► added tokens ─► normalizer ─► added tokens ─► pre-tokenizer ─► model ─► post-processor ─► ids
//	        (as written)                  (normalised)    words            ids      BOS, EOS, [CLS] …
//
// A model is one of BPE (over bytes or over runes), SentencePiece's score-driven BPE, Unigram, WordPiece and WordLevel.
// Words repeat, so a [Tokenizer] remembers the ids of recent words in a table of fixed size; it has no other mutable
// state and may be used by any number of goroutines.
//
// Text that is not valid UTF-8 is read the way Rust's String::from_utf8_lossy reads it: every maximal broken part counts
// as one U+FFFD. Truncation and padding written in a tokenizer.json are ignored: the engine never shortens a prompt.
package tokenizer
