/* engine/plan/key/difference.h — how two key records, and two trees, differ: for `why` and `diff`.
 */
#ifndef CAIRN_PLAN_KEY_DIFFERENCE_H
#define CAIRN_PLAN_KEY_DIFFERENCE_H

#include "plan/key/key.h"
#include "storage/content/content.h"

/* Called for one fact that differs; was or now is NULL when only the other record has it. The
 * command is reported only when nothing else differs: a value that is filled in changes its text
 * too, and is reported by itself. So is a param that the step gets as one of its `params`. */
typedef void (*key_difference_fn)(void *arg, const struct key_fact *was,
				  const struct key_fact *now);
void key_differences(const struct key_fact *was, size_t n_was, const struct key_fact *now,
		     size_t n_now, key_difference_fn fn, void *arg);

/* Appends to *out the first place below which two trees differ: "train/a.png", "lib/b.py added",
 * "run.sh is executable now". For two files, it can only be "it is executable now". Appends nothing
 * when they can't be read. */
void tree_first_difference(struct store *s, const struct content_id *was,
			   const struct content_id *now, struct str *out);
/* The same, ignoring these n paths. */
void tree_first_difference_but(struct store *s, const struct content_id *was,
			       const struct content_id *now, const char *const *but, size_t n,
			       struct str *out);

#endif
