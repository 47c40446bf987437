/* runners/kubernetes/init/light_record.c — writes and reads the plan and the result of a pod
 * without a sidecar. The engine and the static helper share it: only the C library and
 * base/text/str.c. Pure functions. */
#include <string.h>
#include "base/mem.h"
#include "runners/kubernetes/init/light.h"

#define MAGIC     "cairn-light 1\n"
#define MAGIC_LEN (sizeof(MAGIC) - 1)
/* Besides entries, bytes and log: magic, lengths, the exit line. */
#define EXIT_MAX 300
#define FRAME    (MAGIC_LEN + 6 * sizeof(uint64_t) + EXIT_MAX)

static bool take(char **at, char *end, char **ret, size_t *ret_n)
{
	uint32_t n;

	if (end - *at < 4)
		return false;
	n = (uint32_t)(uint8_t)(*at)[0] | (uint32_t)(uint8_t)(*at)[1] << 8 |
	    (uint32_t)(uint8_t)(*at)[2] << 16 | (uint32_t)(uint8_t)(*at)[3] << 24;
	if ((size_t)(end - *at) - 4 < n)
		return false;
	*ret = *at + 4;
	*ret_n = n;
	*at += 4 + n;
	return true;
}

static bool take_magic(char **at, char *end)
{
	if ((size_t)(end - *at) < MAGIC_LEN || memcmp(*at, MAGIC, MAGIC_LEN) != 0)
		return false;
	*at += MAGIC_LEN;
	return true;
}

/* The plan. */

void light_plan_encode(const struct init_program *program, const char *const *outputs,
		       const struct str *entries, struct str *out)
{
	_cleanup_(str_deinit) struct str paths = { 0 };
	_cleanup_(freep) char *plan = NULL;
	size_t n;

	for (; *outputs; outputs++) /* each with its NUL */
		str_addn(&paths, *outputs, strlen(*outputs) + 1);
	plan = init_plan_encode(program, 1, &n);
	str_addn(out, MAGIC, MAGIC_LEN);
	str_add_field(out, plan, n);
	str_add_field(out, paths.s, paths.len);
	str_add_field(out, entries->s, entries->len);
}

int light_plan_decode(char *bytes, size_t len, struct light_plan *ret)
{
	char *at = bytes, *end = bytes + len, *plan, *paths, *entries;
	size_t n_plan, n_paths, n_programs;
	VEC(const char *) v = { 0 };

	*ret = (struct light_plan){ 0 };
	if (!take_magic(&at, end) || !take(&at, end, &plan, &n_plan) ||
	    !take(&at, end, &paths, &n_paths) || !take(&at, end, &entries, &ret->n_entries) ||
	    at != end || (n_paths && paths[n_paths - 1]) ||
	    init_plan_decode(plan, n_plan, &ret->program, &n_programs) < 0)
		return -1;
	for (const char *s = paths; s < paths + n_paths; s += strlen(s) + 1)
		VEC_PUSH(&v, s);
	VEC_PUSH(&v, NULL);
	ret->outputs = v.v;
	ret->entries = entries;
	if (n_programs == 1)
		return 0;
	init_plan_free(ret->program, n_programs);
	free((void *)ret->outputs);
	return -1;
}

void light_plan_deinit(struct light_plan *p)
{
	init_plan_free(p->program, 1);
	free((void *)p->outputs);
}

/* The result. */

size_t light_room(void)
{
	return LIGHT_RESULT_MAX - FRAME;
}

void light_result_encode(const struct light_result *r, struct str *out)
{
	size_t room = light_room() - r->n_entries - r->n_bytes, n = MIN(r->n_log, room);
	char text[EXIT_MAX];

	str_addn(out, MAGIC, MAGIC_LEN);
	str_add_field(out, text, init_exit_encode(&r->exit, text, sizeof(text)));
	str_add_field(out, &(char){ r->too_large ? '1' : '0' }, 1);
	str_add_field(out, r->entries, r->n_entries);
	str_add_field(out, r->bytes, r->n_bytes);
	str_add_u64(out, r->log_bytes);
	str_add_field(out, n ? r->log + r->n_log - n : NULL, n);
}

int light_result_decode(const char *bytes, size_t len, struct light_result *ret)
{
	char *at = (char *)bytes, *end = at + len, *line, *flag, *entries, *content, *log;
	char text[EXIT_MAX];
	size_t n_line, n_flag;

	*ret = (struct light_result){ 0 };
	if (!take_magic(&at, end) || !take(&at, end, &line, &n_line) || n_line >= sizeof(text) ||
	    memchr(line, '\0', n_line) || !take(&at, end, &flag, &n_flag) || n_flag != 1 ||
	    !take(&at, end, &entries, &ret->n_entries) ||
	    !take(&at, end, &content, &ret->n_bytes) || end - at < 8)
		return -1;
	for (size_t i = 8; i-- > 0;)
		ret->log_bytes = ret->log_bytes << 8 | (uint8_t)at[i];
	at += 8;
	memcpy(text, line, n_line);
	text[n_line] = '\0';
	if (!take(&at, end, &log, &ret->n_log) || at != end || ret->n_log > ret->log_bytes ||
	    init_exit_decode(text, &ret->exit) < 0)
		return -1;
	ret->too_large = *flag == '1';
	ret->entries = entries;
	ret->bytes = content;
	ret->log = log;
	return 0;
}
