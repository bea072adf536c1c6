/* The native layer of GenieX 0.9.3 as far as its Python binding calls it for chat: a stub for tests.
   What it says is decided by the last words of the prompt. Written from the binding's types. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { const char *role, *content; void *calls; int32_t n; const char *id, *name; } Message;
typedef struct { Message *messages; int32_t count; const char *tools; bool thinks, prompt; } Template;
typedef struct { float temperature, top_p; int32_t top_k; float min_p, rep, pres, freq; int32_t seed;
                 const char *path, *grammar; bool ignore_eos; } Sampler;
typedef struct { int32_t max_tokens; const char **stop; int32_t stops; Sampler *sampler;
                 const char **images; int32_t n_images; const char **sounds; int32_t n_sounds;
                 bool slides; int32_t keeps; } Config;
typedef bool (*Say)(const char *, void *);
typedef struct { const char *prompt; Config *config; Say say; void *data; int32_t *ids; int32_t n_ids;
                 float *embd; int32_t n_embd, dim; } Input;
typedef struct { int64_t ttft, media, prompt, decode, prompt_tokens, generated; double read, write;
                 int64_t drafts, accepted; const char *stop_reason; } Profile;
typedef struct { char *text; Profile profile; } Output;
typedef struct { char *device; int32_t layers; char *warning; } Device;
typedef struct { const char **ids; int32_t count; } Plugins;

static char logged[65536];
static void note(const char *words) { strncat(logged, words, sizeof logged - strlen(logged) - 2); strcat(logged, "\n"); }
const char *stub_log(void) { return logged; }
void stub_clear(void) { logged[0] = 0; }

int32_t geniex_init(void) { return 0; }
int32_t geniex_deinit(void) { return 0; }
void geniex_free(void *at) { free(at); }
const char *geniex_version(void) { return "stub"; }
const char *geniex_get_error_message(int32_t code) { return code == -200001 ? "the stub was told to fail" : "unknown"; }
int32_t geniex_get_plugin_list(Plugins *out) {
  out->ids = malloc(sizeof *out->ids); out->ids[0] = "llama_cpp"; out->count = 1; return 0; }
int32_t geniex_resolve_device(void *in, Device *out) { out->device = NULL; out->layers = -1; out->warning = NULL; return 0; }
int32_t geniex_model_get_type(const char *name, int32_t *out) { *out = 0; return 0; }
int32_t geniex_model_get_paths(const char *name, void *out) { return -100000; }
int32_t geniex_llm_create(void *in, void **out) {
  note(*(const char **)in); if (strstr(*(const char **)in, "broken")) return -200001;
  *out = malloc(1); return 0; }
int32_t geniex_llm_destroy(void *model) { note("destroyed"); free(model); return 0; }
int32_t geniex_llm_reset(void *model) { note("reset"); return 0; }
int32_t geniex_llm_apply_chat_template(void *model, Template *in, char **out) {
  char *text = calloc(1, 65536);
  for (int i = 0; i < in->count; i++) { strcat(text, in->messages[i].role); strcat(text, ": "); strcat(text, in->messages[i].content); strcat(text, "\n"); }
  strcat(text, "assistant: "); *out = text; return 0; }
int32_t geniex_llm_generate(void *model, Input *in, Output *out) {
  static const char *words[] = {"Paris", " is", " a", " city", "."};
  static const char *smile[] = {"A smile: ", "\xf0\x9f", "\x98\x80", " it is"};
  char told[256]; char *text = calloc(1, 1 << 16); int count = 0; out->text = text;
  snprintf(told, sizeof told, "top_k %d grammar %s", in->config->sampler->top_k, in->config->sampler->grammar ? "yes" : "no");
  note(told); note(in->prompt);
  out->profile.prompt_tokens = 12; out->profile.stop_reason = "eos";
  if (strstr(in->prompt, "please fail")) { return -200001; }
  if (strstr(in->prompt, "too long")) { return -200004; }
  bool endless = strstr(in->prompt, "for ever"), deaf = strstr(in->prompt, "deaf");
  const char **said = strstr(in->prompt, "smile") ? smile : words;
  int most = endless || deaf ? 1 << 30 : said == smile ? 4 : 5;
  for (; count < most && count < in->config->max_tokens; count++) {
    const char *piece = said[count % (said == smile ? 4 : 5)];
    if (strlen(text) < 60000) strcat(text, piece);
    if (!in->say(piece, in->data) && !deaf) { out->profile.stop_reason = "user"; note("cancelled"); break; }
    if (endless || deaf) usleep(1000);
    if (deaf && strstr(logged, "let go")) break;
  }
  if (count == in->config->max_tokens && count < most) out->profile.stop_reason = "length";
  out->profile.generated = count;
  return 0; }
void stub_let_go(void) { note("let go"); }

#define UNUSED(name) int32_t name(void) { return -1; }
UNUSED(geniex_set_log) UNUSED(geniex_set_log_level) UNUSED(geniex_set_qairt_runtime_path)
UNUSED(geniex_get_qairt_runtime_path) UNUSED(geniex_get_plugin_version) UNUSED(geniex_get_device_list)
UNUSED(geniex_llm_get_model_info) UNUSED(geniex_llm_forward_logits) UNUSED(geniex_llm_decide)
UNUSED(geniex_llm_save_kv_cache) UNUSED(geniex_llm_load_kv_cache) UNUSED(geniex_vlm_create)
UNUSED(geniex_vlm_destroy) UNUSED(geniex_vlm_reset) UNUSED(geniex_vlm_generate)
UNUSED(geniex_vlm_apply_chat_template) UNUSED(geniex_vlm_get_capabilities) UNUSED(geniex_vlm_decide)
int32_t geniex_model_init(const char *at) { return 0; }
UNUSED(geniex_model_deinit) UNUSED(geniex_model_pull) UNUSED(geniex_model_last_error_message)
UNUSED(geniex_model_remove) UNUSED(geniex_model_clean) UNUSED(geniex_model_paths_free)
UNUSED(geniex_model_set_type) UNUSED(geniex_model_list_detailed) UNUSED(geniex_model_list_detailed_free)
UNUSED(geniex_model_get_detailed) UNUSED(geniex_model_detail_free) UNUSED(geniex_model_query)
UNUSED(geniex_model_query_free) int32_t geniex_model_resolve_alias(const char *n, char **o) { *o = NULL; return -1; }
UNUSED(geniex_model_resolve_hub) UNUSED(geniex_model_list_chipsets) UNUSED(geniex_model_list_chipsets_free)
UNUSED(geniex_model_detect_chipset) UNUSED(geniex_model_list_hub) UNUSED(geniex_model_list_hub_free)
