/* steps/submit/spark.c — the step `spark-submit`: its command, with a Spark cluster as its default.
 *
 * Spark reads its defaults from a directory (SPARK_CONF_DIR). We make one for the command: what is
 * in Spark's own, as links, and its spark-defaults.conf with the step's settings behind, which win
 * (make_settings()). So the command is any: spark-submit, a shell script around it, or Python with
 * a SparkSession.
 *
 * With the driver in the step, SIGTERM goes to it, and Spark ends the application. With a driver on
 * the cluster spark-submit only waits for it. Then the driver is killed by its id, which Spark
 * prints (scan()); on Kubernetes it is the name of the pod, which we choose: a second submission of
 * this run's task is refused there.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "steps/submit/submit.h"

#define DEFAULTS     "spark-defaults.conf"
#define DEFAULTS_MAX (1 * MIB)
#define LINE_MAX_    4096
#define ID_MAX       128

struct spark {
	struct step_args *a;
	const char *name, *master;
	bool cluster; /* the driver runs there */
	char dir[64]; /* of settings; "": not made yet */
	char line[LINE_MAX_];
	size_t n_line;
	char driver[ID_MAX], application[ID_MAX]; /* as printed; "": not yet */
};

/* Settings. */

/* A line of a Java properties file. */
static void add_property(struct str *to, const char *key, const char *value)
{
	for (const char *c = key; *c; c++) {
		if (strchr("\\ :=#!\t", *c))
			str_addc(to, '\\');
		str_addc(to, *c);
	}
	str_addc(to, '=');
	for (const char *c = value; *c; c++)
		if (*c == '\\')
			str_add(to, "\\\\");
		else if (*c == '\n')
			str_add(to, "\\n");
		else if (*c == ' ' && c == value)
			str_add(to, "\\ ");
		else
			str_addc(to, *c);
	str_addc(to, '\n');
}

static int add_settings(const struct spark *s, struct str *to, struct err *err)
{
	const json_t *conf = step_value(s->a->with, "conf");
	const char *key;
	json_t *v;

	add_property(to, "spark.app.name", s->name);
	if (s->master)
		add_property(to, "spark.master", s->master);
	add_property(to, "spark.submit.deployMode", s->cluster ? "cluster" : "client");
	if (s->cluster) {
		add_property(to, "spark.standalone.submit.waitAppCompletion", "true");
		add_property(to, "spark.kubernetes.submission.waitAppCompletion", "true");
		add_property(to, "spark.yarn.submit.waitAppCompletion", "true");
		add_property(to, "spark.kubernetes.driver.pod.name", s->name);
	}
	json_object_foreach((json_t *)conf, key, v)
	{
		_cleanup_(freep) char *text =
			json_is_string(v) ? xstrdup(json_string_value(v))
			: json_is_object(v) || json_is_array(v) || json_is_null(v)
				? NULL
				: json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

		if (!text)
			return err_set(err, ERR_INVALID,
				       "`with.conf`: `%s` must be a text, a number, true or false",
				       key);
		add_property(to, key, text);
	}
	return 0;
}

/* Where Spark's own settings are. The caller frees it; NULL: nowhere. */
static char *own_settings(void)
{
	const char *dir = getenv("SPARK_CONF_DIR"), *home = getenv("SPARK_HOME");

	if (dir && *dir)
		return realpath(dir, NULL);
	if (home && *home) {
		_cleanup_(freep) char *path = xasprintf("%s/conf", home);

		return realpath(path, NULL);
	}
	return NULL;
}

/* What else is in Spark's own directory: core-site.xml, log4j2.properties, … */
static int link_others(const struct spark *s, const char *own, struct err *err)
{
	DIR *d = opendir(own);
	struct dirent *e;
	int r = 0;

	if (!d)
		return err_errno(err, "cannot read Spark's settings in %s", own);
	while ((r = fs_next(d, own, &e, err)) > 0) {
		_cleanup_(freep) char *from = xasprintf("%s/%s", own, e->d_name),
				      *to = xasprintf("%s/%s", s->dir, e->d_name);

		if (strcmp(e->d_name, DEFAULTS) != 0 && symlink(from, to) < 0) {
			r = err_errno(err, "cannot link %s", to);
			break;
		}
	}
	closedir(d);
	return r;
}

static int make_settings(struct spark *s, struct err *err)
{
	_cleanup_(freep) char *own = own_settings(), *path = NULL;
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err none = { 0 };

	snprintf(s->dir, sizeof(s->dir), "/tmp/cairn-spark-XXXXXX");
	if (!mkdtemp(s->dir)) {
		*s->dir = '\0';
		return err_errno(err, "cannot make a directory in /tmp");
	}
	if (own && link_others(s, own, err) < 0)
		return -1;
	if (own) {
		path = xasprintf("%s/" DEFAULTS, own);
		if (fs_read_file(path, DEFAULTS_MAX, &text, &none) < 0 &&
		    none.code != ERR_NOT_FOUND)
			return err_pass(err, &none);
		free(path);
		path = NULL;
	}
	if (text.len && text.s[text.len - 1] != '\n')
		str_addc(&text, '\n');
	path = xasprintf("%s/" DEFAULTS, s->dir);
	return add_settings(s, &text, err) < 0 ? -1 : fs_write_atomic(path, text.s, text.len, err);
}

/* The application. */

/* Takes the id that begins with `prefix` and a digit out of the line. */
static void scan(const char *line, const char *prefix, char ret[ID_MAX])
{
	const char *at = strstr(line, prefix);
	size_t n = at ? strlen(prefix) + strspn(at + strlen(prefix), "0123456789-_") : 0;

	if (n > strlen(prefix) && n < ID_MAX && !*ret) {
		memcpy(ret, at, n);
		ret[n] = '\0';
	}
}

static void pass_on(void *arg, const char *bytes, size_t n)
{
	struct spark *s = arg;

	(void)fs_write_all(STDOUT_FILENO, bytes, n, NULL);
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] != '\n' && s->n_line < sizeof(s->line) - 1) {
			s->line[s->n_line++] = bytes[i] ? bytes[i] : ' ';
			continue;
		}
		s->line[s->n_line] = '\0';
		s->n_line = 0;
		scan(s->line, "driver-", s->driver);
		scan(s->line, "application_", s->application);
	}
}

/* What stops the driver on the cluster: words for up to 5 arguments; false: nothing is known to
 * run. */
static bool kill_words(const struct spark *s, char id[2 * ID_MAX], const char *words[6])
{
	bool yarn = str_eq(s->master, "yarn"),
	     kubernetes = s->master && str_has_prefix(s->master, "k8s://");
	const json_t *conf = step_value(s->a->with, "conf");
	const char *ns = json_string_value(json_object_get(conf, "spark.kubernetes.namespace"));
	size_t n = 0;

	snprintf(id, 2 * ID_MAX, "%s%s%s", kubernetes ? ns ? ns : "default" : "",
		 kubernetes ? ":" : "",
		 kubernetes ? s->name
		 : yarn     ? s->application
			    : s->driver);
	if (!*id)
		return false;
	if (yarn) {
		words[n++] = "yarn";
		words[n++] = "application";
		words[n++] = "-kill";
		words[n++] = id;
	} else {
		words[n++] = "spark-submit";
		words[n++] = "--kill";
		words[n++] = id;
		if (s->master) {
			words[n++] = "--master";
			words[n++] = s->master;
		}
	}
	words[n] = NULL;
	return true;
}

static void kill_driver(struct spark *s)
{
	struct str said = { 0 };
	struct err ignored = { 0 }; /* we end as stopped in any case */
	char id[2 * ID_MAX];
	const char *words[6];
	struct submit_child c = { .argv = words, .out = &said, .ends_our_work = true };
	int status;

	if (!kill_words(s, id, words))
		return;
	if (submit_run(&c, &status, &ignored) < 0 || status != 0)
		step_note("the driver %s could not be killed: %s", id,
			  ignored.code ? ignored.msg : "see its cluster");
	else
		step_note("the driver %s is killed", id);
	str_deinit(&said);
}

static int start(struct spark *s, struct err *err)
{
	_cleanup_(freep) char *dir = xasprintf("SPARK_CONF_DIR=%s", s->dir);
	const char *const env[] = { dir, NULL };
	const struct submit_child c = {
		.argv = s->a->command, .env = env, .printed = pass_on, .arg = s
	};
	int status;

	if (submit_run(&c, &status, err) < 0)
		return -1;
	if (submit_stopped()) {
		if (s->cluster)
			kill_driver(s);
		return err_set(err, ERR_CANCELLED, "stopped by SIG%s",
			       sigabbrev_np(submit_stopped()));
	}
	if (status == 0)
		return 0;
	return status > 128
		       ? err_set(err, ERR_FAILED, "the command was killed by SIG%s",
				 sigabbrev_np(status - 128) ? sigabbrev_np(status - 128) : "?")
		       : err_set(err, ERR_FAILED, "the command ended with exit status %d", status);
}

static int run(struct step_args *a, struct err *err)
{
	_cleanup_(freep) char *name = submit_name();
	struct spark s = { .a = a,
			   .name = name,
			   .master = step_text(a->with, "master"),
			   .cluster = step_choice(a, "deploy_mode") == 1 };
	int r;

	submit_begin();
	r = make_settings(&s, err);
	if (r == 0)
		r = start(&s, err);
	if (*s.dir)
		(void)fs_remove_tree(s.dir, NULL);
	return r;
}

const struct step_impl step_spark_submit = { "spark-submit", run };
