/* steps/shard/settings.c — `with`, in C. */
#include <string.h>
#include "steps/shard/internal.h"

static uint64_t count_or_0(const json_t *with, const char *name)
{
	return (uint64_t)json_integer_value(step_value(with, name));
}

int settings_read(struct settings *s, const struct step_args *a, struct err *err)
{
	const json_t *w = a->with;
	const char *separator = step_text(w, "separator");

	*s = (struct settings){
		.source = step_choice(a, "source"),
		.last_dot = step_choice(a, "suffix") == 1,
		.idx_png = step_choice(a, "idx_as") == 0,
		.stratify = step_bool(w, "stratify"),
		.shuffle = step_bool(w, "shuffle"),
		.skip_bad = step_choice(a, "on_bad") == 1,
		.allow_empty = step_bool(w, "allow_empty"),
		.class_as = step_choice(a, "class_as"),
		.key = step_text(w, "key"),
		.file = step_text(w, "file"),
		.include = step_value(w, "include"),
		.exclude = step_value(w, "exclude"),
		.members = step_value(w, "members"),
		.classes = step_value(w, "classes"),
		.split = step_value(w, "split"),
		.shards = count_or_0(w, "shards"),
		.samples_per_shard = (uint64_t)step_int(w, "samples_per_shard"),
		.max.samples = count_or_0(w, "max_samples"),
		.max.bytes = count_or_0(w, "max_bytes"),
		.max.file = (uint64_t)step_int(w, "max_file"),
		.max.unpacked = (uint64_t)step_int(w, "max_unpacked"),
		.max.ratio = (uint64_t)step_int(w, "max_ratio"),
		.seed = step_int(w, "seed"),
		.zstd = (int)step_int(w, "zstd"),
	};
	if (rule_read(&s->cls, w, "class", err) < 0 ||
	    rule_read(&s->split_by, w, "split_by", err) < 0 ||
	    rule_read(&s->group_by, w, "group_by", err) < 0)
		return -1;
	if (separator && strlen(separator) != 1)
		return err_set(err, ERR_INVALID, "with.separator: one character, not `%.20s`",
			       separator);
	s->separator = separator ? *separator : '\0';
	return 0;
}

void settings_deinit(struct settings *s)
{
	rule_deinit(&s->cls);
	rule_deinit(&s->split_by);
	rule_deinit(&s->group_by);
}
