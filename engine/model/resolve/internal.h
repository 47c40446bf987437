/* engine/model/resolve/internal.h — shared by the files of this folder. */
#ifndef CAIRN_MODEL_RESOLVE_INTERNAL_H
#define CAIRN_MODEL_RESOLVE_INTERNAL_H

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
	AT_GIVEN,
	AT_THEN,
	AT_UNTIL
};

struct resolver {
	struct loader *l;
	struct build *b; /* NULL: defaults, schedules */
	struct step *s;
	enum place place;
	bool in_file;
	const char *file;
	const struct schedule_decl *schedule; /* whose params are resolved; or NULL */
	/* Of a reference that stands for another one: the path that follows that one, or NULL. */
	const struct expr_template *below;
	/* Per step: the step (index + 1) that marked it last, and which of its deps it is. */
	uint32_t *mark, *mark_dep;
};

struct dotted {
	const char *root, *first, *second,
		*rest; /* a.b.c.d.e → "a" "b" "c" "d.e"; NULL where there is none */
};

/* reference.c */

/* Reports; the reference is broken then. Returns false. */
bool resolver_fail(const struct resolver *rs, struct ref *ref, const char *fmt, ...) _printf_(3, 4);
/* What is resolved next stands in a place of this kind, in this file. */
void resolver_enter(struct resolver *rs, enum place place, const char *file);
/* The step's dep on that one, new or folded. */
struct step_dep *resolver_add_dep(struct resolver *rs, uint32_t needed, const struct pos *pos);
/* Whether a task of this step needs several tasks of that one. */
bool resolver_gathers(const struct resolver *rs, const struct step *needed);
/* Of its value; for struct expr_check, with the resolver as its argument. */
enum expr_type resolver_type_of(void *arg, const struct ref *ref, bool *ret_gathered);
void resolve_ref(void *arg, struct ref *ref);

/* resolve.c */

/* What is resolved next is this step's, seen from its own pipeline. */
void resolver_begin(struct resolver *rs, struct build *b);
void resolve_inputs(struct resolver *rs);
void resolve_locals(struct resolver *rs, enum place place);
void resolve_condition(struct resolver *rs);

/* use.c */

/* The reference becomes what it stands for. */
bool resolver_stand_for(struct resolver *rs, struct ref *ref, const struct step_input *in);
/* What the pipeline that a step uses offers. */
bool resolve_offer(struct resolver *rs, struct ref *ref, const struct dotted *d,
		   const struct use *use);
/* `number` is one that no other step and no other such call has. */
void resolve_offers(struct resolver *rs, struct use *use, uint32_t number);
void resolve_using(struct resolver *rs, struct use *use, uint32_t number);
void resolve_inherited_conditions(struct resolver *rs);
void resolve_needs_of_used(struct resolver *rs);

#endif
