/* engine/cli/serve/cmd_schedule_write.c — `cairn schedule write --to crontab|systemd|kubernetes`.
 *
 * The rule is written in another scheduler's form. The work stays with `cairn run --schedule NAME`,
 * which finds the nominal time itself and runs it once. So a scheduler that calls late or twice
 * does no harm.
 *
 * A parsed struct cron is a set of bits for each field, and add_set() writes such a set with the
 * form's own ranges. What a form can't express is an error (check(), check_systemd()); what it does
 * differently is a comment in the output (add_notes()).
 *
 * cron(8) joins the two day fields by OR when both are restricted and by AND when one begins with a
 * star. crontab and CronJob share that rule, so add_day_field() keeps a starred text as it was
 * typed. systemd always means AND, so one rule becomes several OnCalendar lines.
 *
 * Invariants: output is gathered and printed at the end, so that a crontab is never half written;
 * only unit files in --output's directory are written one by one. Every word is quoted for the
 * program that reads it (add_crontab_word(), add_unit_word(), add_quoted()); text that no form can
 * hold is refused (check_text()). Names of units and objects are unique in one output (`names`).
 *
 * What it doesn't do: install anything.
 */
#include <string.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "cli/serve/schedules.h"

struct writer {
	struct cli *cli;
	const struct schedule_entry *e;
	const char *program, *root;
	const char *path;  /* of the pipeline, written so that it can't be taken for an option */
	const char *name;  /* of the unit or object */
	struct map *names; /* names of all units or objects so far */
	const char *image, *claim;
	struct str *out;
};

static const char *const weekday_names[] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };

/* Sets of numbers. */

static uint64_t bits(int from, int to)
{
	return (to == 63 ? UINT64_MAX : (1ULL << (to + 1)) - 1) & ~((1ULL << from) - 1);
}

/* "1,3,5", with ranges as `dash`; "*" when all are there. */
static void add_set(struct str *out, uint64_t set, int min, int max, const char *dash,
		    const char *const *names)
{
	bool first = true;

	if (set == bits(min, max)) {
		str_addc(out, '*');
		return;
	}
	for (int i = min; i <= max; i++) {
		int last = i;

		if (!(set & (1ULL << i)))
			continue;
		while (last < max && set & (1ULL << (last + 1)))
			last++;
		if (last < i + 2)
			last = i; /* only two neighbours: a list */
		str_add(out, first ? "" : ",");
		first = false;
		names ? str_add(out, names[i]) : str_addf(out, "%d", i);
		if (last > i) {
			str_add(out, dash);
			names ? str_add(out, names[last]) : str_addf(out, "%d", last);
		}
		i = last;
	}
}

static bool has_special_days(const struct cron *c)
{
	bool nth = false;

	for (int i = 0; i < 7; i++)
		nth |= c->nth_weekdays[i] != 0;
	return nth || c->last_days || c->last_weekdays;
}

static int cannot(const struct writer *w, const char *form, const char *why, struct err *err)
{
	return err_set(err, ERR_INVALID,
		       "schedule %s can't be expressed in %s: %s; `cairn serve` can run it",
		       w->e->decl->name, form, why);
}

static int check(const struct writer *w, const char *form, bool special_days, struct err *err)
{
	const struct calendar *c = &w->e->calendar;

	if (w->e->decl->on.pipeline || w->e->decl->on.webhook)
		return cannot(w, form, "it has no rule, but an event that fires it", err);
	if (c->none)
		return cannot(w, form, "it has no rule, but inputs that it watches", err);
	if (has_special_days(&c->cron) && !special_days)
		return cannot(w, form, "it has no L and no #", err);
	return 0;
}

/* Lists what the other scheduler can't do. */
static void add_notes(struct writer *w, const char *comment, const char *known)
{
	const struct schedule_decl *d = w->e->decl;
	const struct {
		const char *key;
		bool used;
	} keys[] = { { "overlap", !str_eq(d->overlap, "skip") },
		     { "catch_up", !str_eq(d->catch_up, "none") },
		     { "jitter", d->jitter_ns > 0 },
		     { "start", d->start_ns > 0 },
		     { "end", d->end_ns > 0 },
		     { "on_change", d->n_on_change > 0 },
		     { "retry", d->retry_max > 0 },
		     { "alert_after", d->alert_after_ns > 0 },
		     { "notify", d->n_notify > 0 } };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (keys[i].used && !strstr(known, keys[i].key))
			str_addf(
				w->out,
				"%s `%s` of schedule %s is lost here: only `cairn serve` does it\n",
				comment, keys[i].key, d->name);
}

/* Five fields. */

/* A day field that begins with a star combines differently with the other one: its text is kept. */
static void add_day_field(struct str *out, const char *text, int index, bool star, uint64_t set,
			  int min, int max)
{
	size_t len;

	if (!star || *text == '@') {
		add_set(out, set, min, max, "-", NULL);
		return;
	}
	for (text += strspn(text, " \t"); index > 0; index--) {
		text += strcspn(text, " \t");
		text += strspn(text, " \t");
	}
	len = strcspn(text, " \t");
	for (size_t i = 0; i < len; i++)
		str_addc(out, text[i] == '?' ? '*' : text[i]);
}

static void add_five_fields(struct writer *w)
{
	const struct cron *c = &w->e->calendar.cron;
	const char *text = w->e->decl->cron;

	add_set(w->out, c->minutes, 0, 59, "-", NULL);
	str_addc(w->out, ' ');
	add_set(w->out, c->hours, 0, 23, "-", NULL);
	str_addc(w->out, ' ');
	add_day_field(w->out, text, 2, c->star_day, c->days, 1, 31);
	str_addc(w->out, ' ');
	add_set(w->out, c->months, 1, 12, "-", NULL);
	str_addc(w->out, ' ');
	add_day_field(w->out, text, 4, c->star_weekday, c->weekdays, 0, 6);
}

/* Crontab. */

/* In a crontab a % ends the command, unless it has a backslash (crontab(5)). */
static void add_crontab_word(struct str *out, const char *word)
{
	struct str quoted = { 0 };

	text_add_shell_quoted(&quoted, word);
	for (const char *p = quoted.s; *p; p++) {
		if (*p == '%')
			str_addc(out, '\\');
		str_addc(out, *p);
	}
	str_deinit(&quoted);
}

static int add_crontab(struct writer *w, struct err *err)
{
	const struct schedule_decl *d = w->e->decl;
	int64_t s = w->e->calendar.cron.every_s;

	if (check(w, "a crontab", false, err) < 0)
		return -1;
	str_addf(w->out, "# %s: %s (%s)\n", d->name, d->cron, d->timezone);
	add_notes(w, "#", "");
	str_addf(w->out, "CRON_TZ=%s\n", s ? "UTC" : d->timezone);
	if (!s)
		add_five_fields(w);
	else if (s % 60 ||
		 (s / 60 < 60 ? 60 % (s / 60) : s % 3600 || s / 3600 > 24 || 24 % (s / 3600)))
		return cannot(w, "a crontab", "@every has to divide an hour or a day", err);
	else if (s < 3600)
		str_addf(w->out, "*/%d * * * *", (int)(s / 60));
	else
		str_addf(w->out, "0 */%d * * *", (int)(s / 3600));
	str_add(w->out, " cd ");
	add_crontab_word(w->out, w->root);
	str_add(w->out, " && ");
	add_crontab_word(w->out, w->program);
	str_add(w->out, " run -q ");
	add_crontab_word(w->out, w->path);
	str_addf(w->out, " --schedule %s\n", d->name);
	return 0;
}

/* Systemd. */

static void add_calendar_line(struct writer *w, const char *weekdays, const char *days)
{
	const struct cron *c = &w->e->calendar.cron;

	str_add(w->out, "OnCalendar=");
	if (*weekdays)
		str_addf(w->out, "%s ", weekdays);
	str_add(w->out, "*-");
	add_set(w->out, c->months, 1, 12, "..", NULL);
	str_addf(w->out, "%s ", days);
	add_set(w->out, c->hours, 0, 23, "..", NULL);
	str_addc(w->out, ':');
	add_set(w->out, c->minutes, 0, 59, "..", NULL);
	str_addf(w->out, ":00 %s\n", w->e->decl->timezone);
}

/* systemd.time(7): `~` counts from the end of the month; a weekday and a day must both match. */
static void add_calendar_lines(struct writer *w)
{
	const struct cron *c = &w->e->calendar.cron;
	bool both = c->star_day || c->star_weekday, all_weekdays = c->weekdays == bits(0, 6);
	struct str weekdays = { 0 }, days = { 0 };

	add_set(&weekdays, c->weekdays, 0, 6, "..", weekday_names);
	str_addc(&days, '-');
	add_set(&days, c->days, 1, 31, "..", NULL);
	if (c->days && (!both || c->weekdays)) /* next to 5L alone, * would match any such day */
		add_calendar_line(w, both && !all_weekdays && c->weekdays ? weekdays.s : "",
				  days.s);
	if (!both && c->weekdays)
		add_calendar_line(w, weekdays.s, "-*");
	else if (both && !c->days && c->weekdays && !c->last_days)
		add_calendar_line(w, weekdays.s, "-*");
	for (int i = 0; i <= 30; i++)
		if (c->last_days & (1U << i) && (!both || c->weekdays)) {
			str_reset(&days);
			str_addf(&days, "~%d", i + 1);
			add_calendar_line(w, both && !all_weekdays && c->weekdays ? weekdays.s : "",
					  days.s);
		}
	for (int d = 0; d < 7; d++) {
		if (c->last_weekdays & (1U << d))
			add_calendar_line(w, weekday_names[d], "~07/1");
		for (int n = 1; n <= 5; n++)
			if (c->nth_weekdays[d] & (1U << n)) {
				str_reset(&days);
				str_addf(&days, "-%d..%d", 7 * n - 6, MIN(7 * n, 31));
				add_calendar_line(w, weekday_names[d], days.s);
			}
	}
	str_deinit(&weekdays);
	str_deinit(&days);
}

/* A rule whose two day fields must both match, one of them special, would need their product. */
static int check_systemd(const struct writer *w, struct err *err)
{
	const struct cron *c = &w->e->calendar.cron;

	if (check(w, "systemd", true, err) < 0)
		return -1;
	if (!w->e->calendar.cron.every_s && has_special_days(c) &&
	    (c->star_day || c->star_weekday) && c->days != bits(1, 31) && c->days &&
	    c->weekdays != bits(0, 6))
		return cannot(w, "systemd", "it combines L or # with a step over the other days",
			      err);
	return 0;
}

/* In a unit file % is a specifier, and $ a variable except in the program's own path; words are
 * quoted according to systemd.service(5). */
static void add_unit_word(struct str *out, const char *word, bool is_program)
{
	str_addc(out, '"');
	for (; *word; word++) {
		if (*word == '"' || *word == '\\')
			str_addc(out, '\\');
		if (*word == '%' || (*word == '$' && !is_program))
			str_addc(out, *word);
		str_addc(out, *word);
	}
	str_addc(out, '"');
}

/* Other settings have no quoting, only specifiers. */
static void add_unit_text(struct str *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '%')
			str_addc(out, '%');
		str_addc(out, *s);
	}
}

static void add_description(struct writer *w)
{
	str_addf(w->out, "[Unit]\nDescription=cairn schedule %s of ", w->e->decl->name);
	add_unit_text(w->out, w->e->path);
}

static void add_service(struct writer *w)
{
	add_description(w);
	str_add(w->out, "\n\n[Service]\nType=oneshot\nWorkingDirectory=");
	add_unit_text(w->out, w->root);
	str_add(w->out, "\nExecStart=");
	add_unit_word(w->out, w->program, true);
	str_add(w->out, " run -q ");
	add_unit_word(w->out, w->path, false);
	str_addf(w->out, " --schedule %s\n", w->e->decl->name);
}

static void add_timer(struct writer *w)
{
	const struct schedule_decl *d = w->e->decl;

	add_notes(w, "#", "jitter catch_up");
	add_description(w);
	str_addf(w->out, ": %s\n\n[Timer]\n", d->cron);
	if (w->e->calendar.cron.every_s)
		str_addf(w->out, "OnActiveSec=0\nOnUnitActiveSec=%llds\n",
			 (long long)w->e->calendar.cron.every_s);
	else
		add_calendar_lines(w);
	str_add(w->out, "AccuracySec=1s\n");
	str_addf(w->out, "Persistent=%s\n", str_eq(d->catch_up, "none") ? "false" : "true");
	if (d->jitter_ns)
		str_addf(w->out, "RandomizedDelaySec=%llds\nFixedRandomDelay=true\n",
			 (long long)(d->jitter_ns / NS_PER_S));
	str_add(w->out, "\n[Install]\nWantedBy=timers.target\n");
}

static int put_unit(struct writer *w, const char *suffix, const char *dir,
		    void (*add)(struct writer *w), struct err *err)
{
	_cleanup_(freep) char *name = xasprintf("%s.%s", w->name, suffix),
			      *path = dir ? fs_join(dir, name) : NULL;
	struct str text = { 0 }, *out = w->out;
	int r = 0;

	if (!dir) {
		str_addf(w->out, "# %s\n", name);
		add(w);
		str_addc(w->out, '\n');
		return 0;
	}
	w->out = &text;
	add(w);
	w->out = out;
	r = fs_mkdir_p(dir, err) < 0 ? -1 : fs_write_atomic(path, text.s, text.len, err);
	if (r == 0)
		cli_note(w->cli, "%s", path);
	str_deinit(&text);
	return r;
}

/* Kubernetes. */

/* A JSON string is a YAML one. */
static void add_quoted(struct str *out, const char *s)
{
	json_add_string(out, s, strlen(s));
}

static int add_kubernetes(struct writer *w, struct err *err)
{
	const struct schedule_decl *d = w->e->decl;
	int64_t window = d->catch_up_window_ns ? d->catch_up_window_ns : 7 * 86400 * NS_PER_S;

	if (check(w, "a CronJob", false, err) < 0)
		return -1;
	str_add(w->out, "---\n");
	add_notes(w, "#",
		  str_eq(w->e->decl->overlap, "queue") ? "catch_up retry"
						       : "overlap catch_up retry");
	str_add(w->out, "apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: ");
	str_add(w->out, w->name);
	str_add(w->out, "\n  labels: {app.kubernetes.io/name: cairn}\n");
	str_add(w->out, "spec:\n  schedule: \"");
	if (w->e->calendar.cron.every_s)
		str_addf(w->out, "@every %llds", (long long)w->e->calendar.cron.every_s);
	else
		add_five_fields(w);
	str_add(w->out, "\"\n");
	if (!w->e->calendar.cron.every_s)
		str_addf(w->out, "  timeZone: \"%s\"\n", d->timezone);
	str_addf(w->out, "  concurrencyPolicy: %s\n",
		 str_eq(d->overlap, "allow")     ? "Allow"
		 : str_eq(d->overlap, "replace") ? "Replace"
						 : "Forbid");
	str_addf(w->out, "  startingDeadlineSeconds: %lld\n",
		 str_eq(d->catch_up, "none") ? 60LL : (long long)(window / NS_PER_S));
	str_addf(w->out, "  suspend: %s\n", w->e->row.paused_ns ? "true" : "false");
	str_addf(w->out, "  jobTemplate:\n    spec:\n      backoffLimit: %u\n", d->retry_max);
	str_add(w->out, "      template:\n        spec:\n          restartPolicy: Never\n          "
			"containers:\n            - name: cairn\n              image: ");
	add_quoted(w->out, w->image);
	str_add(w->out,
		"\n              workingDir: /project\n              args: [\"run\", \"-q\", ");
	add_quoted(w->out, w->path);
	str_addf(w->out, ", \"--schedule\", \"%s\"]\n", w->e->decl->name);
	str_add(w->out, "              command: [\"cairn\"]\n              volumeMounts: [{name: "
			"project, mountPath: /project}]\n"
			"          volumes: [{name: project, persistentVolumeClaim: {claimName: ");
	add_quoted(w->out, w->claim);
	str_add(w->out, "}}]\n");
	return 0;
}

/* All of them. */

/* In each of these forms, some readers have no escape for control characters and for bytes that
 * aren't UTF-8. */
static int check_text(const char *what, const char *text, struct err *err)
{
	_cleanup_(str_deinit) struct str plain = { 0 };

	text_add_printable(&plain, text, strlen(text));
	if (str_eq(plain.s ? plain.s : "", text))
		return 0;
	return err_set(err, ERR_INVALID,
		       "%s has characters that another scheduler's files can't hold: %s. Give it "
		       "another name, or use `cairn serve`",
		       what, text);
}

/* In Kubernetes at most 52 characters, without an underscore: 11 more go to the Job's own suffix.
 */
static char *object_name(const struct writer *w, bool is_kubernetes)
{
	char *name = xasprintf("cairn-%s-%s", w->e->pipeline->name, w->e->decl->name);

	if (!is_kubernetes)
		return name;
	for (char *p = name; *p; p++)
		if (*p == '_')
			*p = '-';
	if (strlen(name) > 52)
		name[52] = '\0';
	for (char *p = name + strlen(name) - 1; *p == '-'; p--)
		*p = '\0';
	return name;
}

static int write_one(struct writer *w, const char *to, const char *dir, struct err *err)
{
	_cleanup_(freep) char *name = NULL;
	_cleanup_(str_deinit) struct str path = { 0 };
	size_t n = strlen(w->root);
	bool fresh;

	str_addf(&path, "%s%s", *w->e->path == '-' ? "./" : "", w->e->path);
	w->path = path.s;
	if (check_text("the project's path", w->root, err) < 0 ||
	    check_text("the pipeline's path", w->path, err) < 0 ||
	    check_text("this program's path", w->program, err) < 0 ||
	    check_text("--image", w->image, err) < 0 || check_text("--claim", w->claim, err) < 0)
		return -1;
	if (str_eq(to, "crontab"))
		return add_crontab(w, err);
	w->name = name = object_name(w, str_eq(to, "kubernetes"));
	map_slot(w->names, name, strlen(name), &fresh);
	if (!fresh)
		return err_set(err, ERR_INVALID,
			       "two schedules would both be called %s: rename one of the pipelines "
			       "or schedules, or name the schedules to write",
			       name);
	if (str_eq(to, "kubernetes"))
		return add_kubernetes(w, err);
	if (strchr("\\ ", w->root[n - 1])) /* it would continue in the next line, or lose its end */
		return err_set(err, ERR_INVALID,
			       "the project's path ends with a backslash or a space, which a unit "
			       "file can't hold");
	if (check_systemd(w, err) < 0 || put_unit(w, "service", dir, add_service, err) < 0)
		return -1;
	return put_unit(w, "timer", dir, add_timer, err);
}

static int write_all(struct cli *cli, const struct cli_args *args, const struct schedule_list *all,
		     struct str *out, struct err *err)
{
	_cleanup_(map_freep) struct map *names = map_new();
	struct writer w = { .cli = cli,
			    .names = names,
			    .out = out,
			    .program = cli_program(cli),
			    .root = cli->config->project_root,
			    .image = cli_value(args, "image") ? cli_value(args, "image")
							      : "cairn:" CAIRN_VERSION,
			    .claim = cli_value(args, "claim") ? cli_value(args, "claim")
							      : "cairn-project" };

	for (size_t i = 0; i < (args->n_operands ? args->n_operands : all->n); i++) {
		w.e = args->n_operands ? NULL : &all->v[i];
		if ((!w.e && schedules_find(cli, all, args->operands[i], &w.e, err) < 0) ||
		    write_one(&w, cli_value(args, "to"), cli_value(args, "output"), err) < 0)
			return -1;
	}
	return 0;
}

int cmd_schedule_write(struct cli *cli, const struct cli_args *args)
{
	const char *to = cli_value(args, "to");
	struct schedule_list all;
	struct str out = { 0 };
	struct err err = { 0 };
	int code = CLI_OK;

	if (!to)
		return cli_usage_error(cli, "name a form: --to crontab|systemd|kubernetes");
	if (cli_value(args, "output") && !str_eq(to, "systemd"))
		return cli_usage_error(
			cli, "--output is for --to systemd, which needs a file for each unit");
	if (schedules_open(cli, NULL, 0, &all, &err) < 0 ||
	    write_all(cli, args, &all, &out, &err) < 0)
		code = cli_fail(cli, &err);
	else if (all.broken)
		code = CLI_INVALID; /* half of a crontab would disable the other half */
	else if (out.len)
		cli_printf(cli, "%s", out.s);
	str_deinit(&out);
	schedules_close(&all);
	return code;
}
