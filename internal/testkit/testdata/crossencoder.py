"""What the small cross-encoders of internal/testkit/encoder.go say, computed in plain Python from the definitions in
transformers (models/bert/modeling_bert.py and models/xlm_roberta/modeling_xlm_roberta.py, written anew, in float64):

  embeddings    LayerNorm(word + position + token_type); positions from 0 (BERT) or from 2 (XLM-RoBERTa)
  each layer    x = LayerNorm(x + dense(attention(x))); x = LayerNorm(x + dense(gelu(dense(x)))), gelu by erf
  head          BERT: classifier(tanh(pooler(x[0]))); XLM-RoBERTa: out_proj(tanh(dense(x[0])))
  pairs         BERT: [CLS] a [SEP] b [SEP], token types 1 from b on; XLM-RoBERTa: <s> a </s></s> b </s>, all of type 0

and what the small NomicBertModel makes of a text, the mean of all hidden states with length 1, from Nomic's definition
(huggingface.co/nomic-ai/nomic-bert-2048, modeling_hf_nomic_bert.py, written anew):

  embeddings    LayerNorm(word + token_type[0])
  each layer    x = LayerNorm(x + out_proj(attention(rotated q, rotated k, v))); x = LayerNorm(x + fc2(fc11(x) * silu(fc12(x))))
  rotation      by halves of a head, base 1000

    python3 crossencoder.py > crossencoder.json
"""

import json
import math

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "fox", "ran", "into", "the", "wood", "##s", "page", "of", "cache", "."]
HIDDEN, FFN, LAYERS, HEADS, CONTEXT = 64, 96, 2, 4, 48
CLS, SEP = 2, 3
QUERIES = [
    ("a fox ran", ["the fox ran into the wood .", "a page of the cache", "fox", "the cache of the page of the wood ."]),
    ("the cache", ["a page of a cache of the page .", "a fox ran into the wood"]),
]


def formula(t, i):
    x = (i * 2654435761 + t * 40503 + 12345) & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x2C1B3C6D & 0xFFFFFFFF
    x ^= x >> 12
    x = x * 0x297A2D39 & 0xFFFFFFFF
    x ^= x >> 15
    return (x >> 9) / (1 << 23) - 0.5


class Weights:
    """The tensors of the file, in its order."""

    def __init__(self):
        self.count = 0

    def tensor(self, mean, scale, rows, cols):
        t, self.count = self.count, self.count + 1
        return [[mean + scale * formula(t, r * cols + c) for c in range(cols)] for r in range(rows)]

    def linear(self, out, inner):
        return self.tensor(0, 0.5, out, inner), self.tensor(0, 0.5, 1, out)[0]

    def norm(self):
        return self.tensor(1, 0.5, 1, HIDDEN)[0], self.tensor(0, 0.5, 1, HIDDEN)[0]


def dense(layer, x):
    matrix, bias = layer
    return [sum(m * v for m, v in zip(row, x)) + b for row, b in zip(matrix, bias)]


def layer_norm(params, x):
    mean = sum(x) / len(x)
    variance = sum((v - mean) ** 2 for v in x) / len(x)
    return [(v - mean) / math.sqrt(variance + 1e-12) * w + b for v, w, b in zip(x, *params)]


def attention(q, k, v):
    size = HIDDEN // HEADS
    out = [[] for _ in q]
    for h in range(HEADS):
        part = slice(h * size, (h + 1) * size)
        for i, row in enumerate(q):
            scores = [sum(a * b for a, b in zip(row[part], key[part])) / math.sqrt(size) for key in k]
            top = max(scores)
            powers = [math.exp(s - top) for s in scores]
            out[i] += [sum(p * value[part][d] for p, value in zip(powers, v)) / sum(powers) for d in range(size)]
    return out


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def gelu(x):
    return [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x]


def model(roberta):
    w = Weights()
    words = w.tensor(0, 2, len(WORDS), HIDDEN)
    positions = w.tensor(0, 1, CONTEXT + (2 if roberta else 0), HIDDEN)
    types = w.tensor(0, 2, 1 if roberta else 2, HIDDEN)
    norm = w.norm()
    layers = []
    for _ in range(LAYERS):
        heads = [w.linear(HIDDEN, HIDDEN) for _ in range(4)]
        layers.append((heads, w.norm(), w.linear(FFN, HIDDEN), w.linear(HIDDEN, FFN), w.norm()))
    pooler, classifier = w.linear(HIDDEN, HIDDEN), w.linear(1, HIDDEN)

    def score(a, b):
        a, b = ([WORDS.index(word) for word in text.split()] for text in (a, b))
        ids = [CLS] + a + [SEP] + ([SEP] if roberta else [])
        kinds = [0] * len(ids) + [0 if roberta else 1] * (len(b) + 1)
        ids += b + [SEP]
        first = 2 if roberta else 0
        x = [layer_norm(norm, add(add(words[t], positions[first + p]), types[kinds[p]])) for p, t in enumerate(ids)]
        for (query, key, value, output), norm1, up, down, norm2 in layers:
            mixed = attention(*([dense(layer, row) for row in x] for layer in (query, key, value)))
            x = [layer_norm(norm1, add(row, dense(output, m))) for row, m in zip(x, mixed)]
            x = [layer_norm(norm2, add(row, dense(down, gelu(dense(up, row))))) for row in x]
        return dense(classifier, [math.tanh(v) for v in dense(pooler, x[0])])[0]

    return score


def rotated(x, position):
    size = HIDDEN // HEADS
    out = []
    for h in range(HEADS):
        a, b = x[h * size : h * size + size // 2], x[h * size + size // 2 : (h + 1) * size]
        angles = [position / 1000 ** (2 * i / size) for i in range(size // 2)]
        out += [u * math.cos(t) - v * math.sin(t) for u, v, t in zip(a, b, angles)]
        out += [v * math.cos(t) + u * math.sin(t) for u, v, t in zip(a, b, angles)]
    return out


def nomic():
    w = Weights()

    def bare(out, inner):
        return w.tensor(0, 0.5, out, inner), [0] * out

    words = w.tensor(0, 2, len(WORDS), HIDDEN)
    types = w.tensor(0, 2, 2, HIDDEN)
    norm = w.norm()
    layers = []
    for _ in range(LAYERS):
        qkv, output, norm1 = bare(3 * HIDDEN, HIDDEN), bare(HIDDEN, HIDDEN), w.norm()
        layers.append((qkv, output, norm1, bare(FFN, HIDDEN), bare(FFN, HIDDEN), bare(HIDDEN, FFN), w.norm()))

    def embed(text):
        ids = [CLS] + [WORDS.index(word) for word in text.split()] + [SEP]
        x = [layer_norm(norm, add(words[t], types[0])) for t in ids]
        for qkv, output, norm1, up, gate, down, norm2 in layers:
            three = [dense(qkv, row) for row in x]
            q = [rotated(row[:HIDDEN], p) for p, row in enumerate(three)]
            k = [rotated(row[HIDDEN : 2 * HIDDEN], p) for p, row in enumerate(three)]
            mixed = attention(q, k, [row[2 * HIDDEN :] for row in three])
            x = [layer_norm(norm1, add(row, dense(output, m))) for row, m in zip(x, mixed)]
            silu = [[g / (1 + math.exp(-g)) for g in dense(gate, row)] for row in x]
            x = [layer_norm(norm2, add(row, dense(down, [u * g for u, g in zip(dense(up, row), s)]))) for row, s in zip(x, silu)]
        total = [sum(column) for column in zip(*x)]
        length = math.sqrt(sum(v * v for v in total))
        return [v / length for v in total]

    return [{"text": text, "vector": embed(text)} for text in QUERIES[0][1]]


def main():
    result = {"NomicBertModel": nomic()}
    for architecture, roberta in (("BertForSequenceClassification", False), ("XLMRobertaForSequenceClassification", True)):
        score = model(roberta)
        result[architecture] = [{"query": q, "documents": ds, "logits": [score(q, d) for d in ds]} for q, ds in QUERIES]
    print(json.dumps(result, indent=1))


main()
