/* Regular expressions, by PCRE2, which is loaded when the first is made. */
#include "base/text/pattern.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/mem.h"
#include "base/os/library.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define LENGTH_MAX 1000
#define NESTED_MAX 50
/* Of one line: steps (some 10 ms of them), and memory in KiB. */
#define STEPS_MAX  1000000
#define MEMORY_MAX 8192

#define PCRE2_FUNCTIONS(X)        \
	X(compile)                \
	X(code_free)              \
	X(compile_context_create) \
	X(compile_context_free)   \
	X(set_max_pattern_length) \
	X(set_parens_nest_limit)  \
	X(match_context_create)   \
	X(match_context_free)     \
	X(set_match_limit)        \
	X(set_heap_limit)         \
	X(match_data_create)      \
	X(match_data_free)        \
	X(match)                  \
	X(get_error_message)

static struct pcre2_api {
#define PCRE2_POINTER(name) __typeof__(&pcre2_##name##_8) name;
	PCRE2_FUNCTIONS(PCRE2_POINTER)
} pcre2;
static struct err load_err; /* set once, before anyone reads it */
static pthread_once_t once = PTHREAD_ONCE_INIT;

struct pattern {
	pcre2_code *code;
	pcre2_match_context *limits;
	pcre2_match_data *found;
};

static void load(void)
{
	static const char *const names[] = { "libpcre2-8.so.0", NULL };
	static const struct library_function functions[] = {
#define PCRE2_ROW(name) \
	{ "pcre2_" #name "_8", offsetof(struct pcre2_api, name), LIBRARY_LINKED(pcre2_##name##_8) },
		PCRE2_FUNCTIONS(PCRE2_ROW)
	};
	const char *missing;

	if (library_open(names, functions, ARRAY_LEN(functions), &pcre2, &missing) < 0)
		err_set(&load_err, ERR_UNSUPPORTED,
			"%s%s; regular expressions need the package libpcre2-8-0",
			missing ? "libpcre2-8.so.0 lacks " : "libpcre2-8.so.0 is not there",
			missing ? missing : "");
}

static int say(struct err *err, int code, const char *where)
{
	char text[200] = "";

	pcre2.get_error_message(code, (unsigned char *)text, sizeof(text));
	return err_set(err, ERR_INVALID, "the regular expression: %s%s", text, where);
}

static pcre2_code *compile(const char *text, bool any_case, struct err *err)
{
	pcre2_compile_context *limits = pcre2.compile_context_create(NULL);
	uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C |
			   (any_case ? PCRE2_CASELESS : 0);
	char where[40];
	pcre2_code *code;
	size_t at;
	int e;

	pcre2.set_max_pattern_length(limits, LENGTH_MAX);
	pcre2.set_parens_nest_limit(limits, NESTED_MAX);
	code = pcre2.compile((const unsigned char *)text, strlen(text), options, &e, &at, limits);
	pcre2.compile_context_free(limits);
	if (code)
		return code;
	snprintf(where, sizeof(where), ", at byte %zu", at + 1);
	say(err, e, where);
	return NULL;
}

int pattern_new(const char *text, bool any_case, struct pattern **ret, struct err *err)
{
	struct pattern *p;
	pcre2_code *code;

	pthread_once(&once, load);
	if (load_err.code)
		return err_pass(err, &load_err);
	code = compile(text, any_case, err);
	if (!code)
		return -1;
	p = xcalloc(1, sizeof(*p));
	p->code = code;
	p->limits = pcre2.match_context_create(NULL);
	pcre2.set_match_limit(p->limits, STEPS_MAX);
	pcre2.set_heap_limit(p->limits, MEMORY_MAX);
	p->found = pcre2.match_data_create(1, NULL);
	*ret = p;
	return 0;
}

void pattern_free(struct pattern *p)
{
	if (!p)
		return;
	pcre2.match_data_free(p->found);
	pcre2.match_context_free(p->limits);
	pcre2.code_free(p->code);
	free(p);
}

int pattern_matches(struct pattern *p, const char *line, size_t n, struct err *err)
{
	int r = pcre2.match(p->code, (const unsigned char *)line, n, 0, 0, p->found, p->limits);

	if (r >= 0)
		return 1;
	return r == PCRE2_ERROR_NOMATCH ? 0 : say(err, r, ", in a line of the log");
}
