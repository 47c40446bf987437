/* engine/serve/notify/occurrence.c — one firing of a schedule as options of a run.
 *
 * The nominal time comes from the text or from the calendar (newest_nominal()). The data interval
 * ends there and begins at the nominal time before it, even before `start`. For a schedule without
 * a rule it begins at the last firing whose run has ended. If there is no earlier time, the
 * interval is empty. occurrence_options() evaluates the schedule's params and puts them before
 * those of the command line, which therefore win.
 *
 * Invariants: for schedules that have a rule, the same declaration and nominal time give the same
 * times on every machine. Each call makes its own set of zones.
 *
 * Threads: the thread of the database handle; nothing is kept between calls. Not here: claiming the
 * firing (record/rows/firings.c), starting the run.
 */
#include "serve/notify/occurrence.h"

#include <string.h>
#include "base/text/text.h"
#include "plan/plan.h"

/* Finds a schedule by name; ERR_NOT_FOUND suggests the nearest name. */
static int find_schedule(const struct pipeline *p, const char *name,
			 const struct schedule_decl **ret, struct err *err)
{
	_cleanup_(freep) const char **names = xcalloc(p->n_schedules + 1, sizeof(*names));
	_cleanup_(str_deinit) struct str hint = { 0 };

	for (size_t i = 0; i < p->n_schedules; i++) {
		names[i] = p->schedules[i].name;
		if (str_eq(names[i], name)) {
			*ret = &p->schedules[i];
			return 0;
		}
	}
	text_add_suggestion(&hint, name, names, p->n_schedules);
	return err_set(err, ERR_NOT_FOUND, "%s has no schedule `%.60s`%s", p->path, name,
		       hint.s ? hint.s : "");
}

static const char *time_text(struct arena *arena, int64_t ns)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	text_add_time(&s, ns, ns % NS_PER_S ? 9 : 0);
	return arena_strdup(arena, s.s);
}

int occurrence_of(const struct schedule_decl *d, const struct occurrence_record *record,
		  int64_t nominal_ns, struct arena *arena, struct occurrence *ret, struct err *err)
{
	struct firing_filter before = { .path = record->path,
					.schedule = d->name,
					.before_ns = nominal_ns,
					.ended_runs = true,
					.limit = 1 };
	struct zone_set *zones = zone_set_new(NULL);
	struct calendar c;
	int64_t start = INT64_MIN;
	struct firing *f;
	size_t n = 0;
	int r = calendar_of(d, zones, &c, err);

	if (r == 0 && !c.none)
		start = calendar_interval_start(&c, nominal_ns);
	else if (r == 0 && record->db)
		r = record_firings(record->db, &before, arena, &f, &n, err);
	zone_set_free(zones);
	if (r < 0)
		return -1;
	if (n)
		start = f[0].nominal_ns;
	if (start == INT64_MIN)
		start = nominal_ns; /* no earlier time: an empty interval */
	*ret = (struct occurrence){ .decl = d, .nominal_ns = nominal_ns };
	ret->times = (struct schedule_times){ .name = arena_strdup(arena, d->name),
					      .time = time_text(arena, nominal_ns),
					      .interval_start = time_text(arena, start),
					      .interval_end = time_text(arena, nominal_ns) };
	return 0;
}

static int newest_nominal(const struct schedule_decl *d, int64_t wall_ns, int64_t *ret_ns,
			  struct err *err)
{
	struct zone_set *zones = zone_set_new(NULL);
	struct calendar c;
	int r = calendar_of(d, zones, &c, err);

	*ret_ns = r < 0 || c.none ? wall_ns : calendar_previous(&c, wall_ns + 1);
	zone_set_free(zones);
	if (r == 0 && *ret_ns == INT64_MIN)
		return err_set(err, ERR_NOT_FOUND, "schedule %s has no time yet", d->name);
	return r;
}

/* What fired it is on record with the firing. */
static int add_event(struct occurrence *oc, const struct occurrence_record *record,
		     struct arena *arena, struct err *err)
{
	struct firing f;
	int r = record_firing(record->db, record->path, oc->decl->name, oc->nominal_ns, arena, &f,
			      err);

	if (r > 0) {
		oc->times.run = firing_event_id(&f, FIRING_EVENT_RUN);
		oc->times.delivery = firing_event_id(&f, FIRING_EVENT_DELIVERY);
	}
	return MIN(r, 0);
}

int occurrence_parse(const struct pipeline *p, const char *text,
		     const struct occurrence_record *record, int64_t wall_ns, struct arena *arena,
		     struct occurrence *ret, struct err *err)
{
	const char *at = strchr(text, '@'),
		   *name = at ? arena_strndup(arena, text, (size_t)(at - text)) : text;
	const struct schedule_decl *d = NULL;
	int64_t nominal;

	if (find_schedule(p, name, &d, err) < 0)
		return -1;
	if (at ? text_parse_time(at + 1, &nominal, err) < 0
	       : newest_nominal(d, wall_ns, &nominal, err) < 0)
		return -1;
	if (occurrence_of(d, record, nominal, arena, ret, err) < 0)
		return -1;
	ret->explicit_time = at != NULL;
	return record->db ? add_event(ret, record, arena, err) : 0;
}

/* Params. */

static int resolve(void *arg, const struct ref *ref, struct value *ret, struct err *err)
{
	return plan_schedule_value(arg, ref, ret, err);
}

int occurrence_options(const struct occurrence *oc, struct arena *arena, struct run_options *o,
		       struct err *err)
{
	size_t n = oc->decl->n_params;
	struct param_override *v = arena_alloc(arena, (n + o->n_overrides + 1) * sizeof(*v));
	struct expr_scope scope = { .resolve = resolve, .arg = (void *)(uintptr_t)&oc->times };

	for (size_t i = 0; i < n; i++) {
		const struct named_template *t = &oc->decl->params[i];
		struct value *value = arena_alloc(arena, sizeof(*value));

		if (template_eval(t->value, &scope, arena, value, err) < 0)
			return err_wrap(err, "param `%s` of schedule %s", t->name, oc->decl->name);
		v[i] = (struct param_override){ .name = t->name,
						.value = value,
						.where = arena_printf(arena, "schedule %s",
								      oc->decl->name) };
	}
	if (o->n_overrides)
		memcpy(v + n, o->overrides, o->n_overrides * sizeof(*v));
	o->overrides = v;
	o->n_overrides += n;
	o->firing.times = &oc->times;
	o->firing.nominal_ns = oc->nominal_ns;
	o->firing.again = oc->explicit_time;
	o->firing.cause = oc->explicit_time ? FIRING_MANUAL : FIRING_TIME;
	return 0;
}
