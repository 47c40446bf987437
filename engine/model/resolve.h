/* engine/model/resolve.h — shared by resolve.c and resolve_use.c; no other file includes it. */
#ifndef CAIRN_MODEL_RESOLVE_H
#define CAIRN_MODEL_RESOLVE_H

#include "model/read.h"

enum place {
	AT_DEFAULTS,
	AT_COMMAND,
	AT_PATH,
	AT_AXIS,
	AT_IF,
	AT_FROM,
	AT_EACH,
	AT_SCHEDULE,
	AT_EXPORT,
	AT_SETTING,
	AT_GIVEN
};

struct resolver {
	struct loader *l;
	struct build *b; /* NULL: defaults, schedules */
	struct step *s;
	enum place place;
	bool in_file;
	const char *file;
	const struct expr_template *below; /* of a reference that stands for another one: the path
					      that follows that one, or NULL */
	uint32_t *mark, *mark_dep; /* per step: the step (index + 1) that marked it last, and which
				      of its deps it is */
};

struct dotted {
	const char *root, *first, *second,
		*rest; /* a.b.c.d.e → "a" "b" "c" "d.e"; NULL where there is none */
};

/* resolve.c */

/* Reports; the reference is broken then. Returns false. */
bool fail_ref(const struct resolver *rs, struct ref *ref, const char *fmt, ...) _printf_(3, 4);
/* What is resolved next is this step's, seen from its own pipeline. */
void resolver_begin(struct resolver *rs, struct build *b);
/* … and stands in a place of this kind, in this file. */
void resolver_enter(struct resolver *rs, enum place place, const char *file);
/* The step's dep on that one, new or folded. */
struct step_dep *resolver_add_dep(struct resolver *rs, uint32_t needed, const struct pos *pos);
void resolve_ref(void *arg, struct ref *ref);
void resolve_inputs(struct resolver *rs);
void resolve_locals(struct resolver *rs, enum place place);
void resolve_condition(struct resolver *rs);

/* resolve_use.c */

/* The reference becomes what it stands for. */
bool stand_for(struct resolver *rs, struct ref *ref, const struct step_input *in);
/* What the pipeline that a step uses offers. */
bool resolve_offer(struct resolver *rs, struct ref *ref, const struct dotted *d,
		   const struct use *use);
/* `number` is one that no other step and no other such call has */

void resolve_offers(struct resolver *rs, struct use *use, uint32_t number);
void resolve_using(struct resolver *rs, struct use *use, uint32_t number);
void inherit_conditions(struct resolver *rs);
void resolve_needs_of_used(struct resolver *rs);

#endif
