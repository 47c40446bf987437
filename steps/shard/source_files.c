/* steps/shard/source_files.c — a tree of files. */
#include <fcntl.h>
#include "steps/shard/internal.h"

int source_files(struct set *s, const struct input *in, struct err *err)
{
	struct loose_list list = { 0 };

	for (size_t i = 0; i < in->n; i++) {
		struct loose l = { .part = { .where = in->files[i].link ? PART_LINK : PART_FILE,
					     .at = in->files[i].name } };
		int r = loose_name(s, in->root, in->files[i].name, &l.key, &l.part.field, err);

		if (r < 0) {
			VEC_FREE(&list.all);
			return -1;
		}
		if (r == 0)
			VEC_PUSH(&list.all, l);
	}
	return loose_add_all(s, &list, false, err);
}
