// Logits computes a few prompts of a GGUF file with llama.cpp and prints what check reads as golden.json: ids, logits of the last token, and 16
// greedy tokens; of an encoder the last token's hidden state. Sums are of floats: the cache is F32 and flash attention is off.
//
//	g++ -O1 -std=c++17 -Iinclude -Iggml/include logits.cpp -o logits libllama.so libggml.so libggml-base.so -Wl,-rpath,FOLDER
//	logits FILE.gguf FOLDER > golden.json
//
// Headers are llama.cpp's, and FOLDER has its libraries and ggml's for CPUs.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

[[noreturn]] static void fail(const std::string & why) {
    fprintf(stderr, "logits: %s\n", why.c_str());
    exit(1);
}

static llama_token largest(const std::vector<float> & row) {
    size_t at = 0;
    for (size_t i = 1; i < row.size(); i++) {
        if (row[i] > row[at]) at = i;
    }
    return llama_token(at);
}

// Case is one prompt of so many tokens, and what follows it.
struct Case {
    std::vector<llama_token> prompt, greedy;
    std::vector<float> row;
};

static Case compute(llama_model * model, int length, int seed, bool encoder) {
    const int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    const int width = encoder ? llama_model_n_embd(model) : vocab;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 256;
    params.n_batch = params.n_ubatch = 64;
    params.n_threads = params.n_threads_batch = 1;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.embeddings = encoder;
    params.pooling_type = LLAMA_POOLING_TYPE_NONE;
    llama_context * ctx = llama_init_from_model(model, params);
    if (!ctx) fail("no context for the model");
    Case c;
    for (int i = 0; i < length; i++) c.prompt.push_back((i * 37 + 11 + seed * 5) % vocab);
    std::vector<llama_token> next = c.prompt;
    for (int step = 0; step < (encoder ? 1 : 16); step++) {
        llama_batch batch = llama_batch_get_one(next.data(), int(next.size()));
        if (encoder ? llama_encode(ctx, batch) : llama_decode(ctx, batch)) fail("a batch could not be computed");
        const float * out = encoder ? llama_get_embeddings_ith(ctx, length - 1) : llama_get_logits_ith(ctx, -1);
        if (!out) fail("the last token has no results");
        std::vector<float> row(out, out + width);
        if (step == 0) c.row = row;
        if (encoder) break;
        c.greedy.push_back(largest(row));
        next.assign(1, c.greedy.back());
    }
    llama_free(ctx);
    return c;
}

template <typename T> static void print(const char * name, const std::vector<T> & list, const char * format) {
    printf("\"%s\": [", name);
    for (size_t i = 0; i < list.size(); i++) {
        if (i) printf(", ");
        printf(format, list[i]);
    }
    printf("]");
}

int main(int argc, char ** argv) {
    if (argc != 3) fail("give FILE.gguf and the folder of ggml's CPU libraries");
    llama_log_set([](ggml_log_level level, const char * text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
    }, nullptr);
    ggml_backend_load_all_from_path(argv[2]);
    llama_backend_init();
    llama_model * model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) fail(std::string("cannot load ") + argv[1]);
    char arch[64] = "";
    llama_model_meta_val_str(model, "general.architecture", arch, sizeof arch);
    const bool encoder = std::string(arch).find("bert") != std::string::npos;
    printf("{\"cases\": [");
    const int lengths[] = {1, 5, 40};
    for (int i = 0; i < 3; i++) {
        Case c = compute(model, lengths[i], i, encoder);
        if (i) printf(",\n");
        printf("{");
        print("prompt_ids", c.prompt, "%d");
        printf(", ");
        print("last_prompt_logits", c.row, "%.9g");
        c.greedy.insert(c.greedy.begin(), c.prompt.begin(), c.prompt.end());
        printf(", ");
        print("greedy_ids", encoder ? std::vector<llama_token>() : c.greedy, "%d");
        printf("}");
    }
    printf("]}\n");
    llama_model_free(model);
}
