#include "record/environment.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/text/text.h"

/* Enough for the first cpu: on a large machine, reading all of them takes the kernel
 * milliseconds. */
#define CPUINFO_BYTES 16384
#define GPUS_MAX      64

static void add_cpu(json_t *env)
{
	static const struct {
		const char *in_file, *key;
	} wanted[] = { { "model name", "cpu_model" },
		       { "flags", "cpu_flags" },
		       { "Features", "cpu_flags" } };
	char text[CPUINFO_BYTES + 1];
	FILE *f = fopen("/proc/cpuinfo", "re");
	size_t n = f ? fread(text, 1, CPUINFO_BYTES, f) : 0;

	if (f)
		fclose(f);
	text[n] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		const char *at = strstr(text, wanted[i].in_file),
			   *colon = at ? strchr(at, ':') : NULL;

		if (colon && colon[1] == ' ')
			json_object_set_new(env, wanted[i].key,
					    json_name(colon + 2, strcspn(colon + 2, "\n")));
	}
}

/* "Model: \t\t NVIDIA H200" */
static const char *field_of(const char *text, const char *name, size_t *ret_n)
{
	const char *at = strstr(text, name);

	if (!at)
		return NULL;
	at += strlen(name);
	at += strspn(at, ": \t");
	*ret_n = strcspn(at, "\n");
	return *ret_n ? at : NULL;
}

static void add_nvidia(json_t *env)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	json_t *gpus;
	struct dirent *e;
	DIR *d = opendir("/proc/driver/nvidia/gpus");
	size_t n;

	if (!d)
		return;
	gpus = json_array();
	while (json_array_size(gpus) < GPUS_MAX && fs_next(d, "", &e, NULL) > 0) {
		_cleanup_(freep) char *path =
			xasprintf("/proc/driver/nvidia/gpus/%s/information", e->d_name);
		const char *model;

		str_reset(&text);
		if (e->d_name[0] == '.' || fs_read_file(path, 64 * KIB, &text, NULL) < 0 ||
		    !text.len)
			continue;
		model = field_of(text.s, "Model", &n);
		if (model)
			json_array_append_new(gpus, json_name(model, n));
	}
	closedir(d);
	json_object_set_new(env, "gpus", gpus);
	str_reset(&text);
	if (fs_read_file("/sys/module/nvidia/version", KIB, &text, NULL) == 0 && text.len)
		json_object_set_new(env, "gpu_driver", json_name(text.s, strcspn(text.s, "\n")));
}

json_t *environment_json(void)
{
	/* What the local runner lets tasks see of the machine (runners/workspace.c), except the
	 * user. Everything else that a task sees is declared, and part of its key. */
	static const char *const passed[] = { "PATH", "VIRTUAL_ENV", "CONDA_PREFIX" };
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	json_t *env = json_object(), *variables = json_object();
	struct utsname u;
	struct cpus all;
	char libc[128] = "";

	if (uname(&u) == 0) {
		json_object_set_new(env, "kernel", json_sprintf("%s %s", u.sysname, u.release));
		json_object_set_new(env, "machine", json_string(u.machine));
		json_object_set_new(env, "host", json_name(u.nodename, strlen(u.nodename)));
	}
	confstr(_CS_GNU_LIBC_VERSION, libc, sizeof(libc));
	json_object_set_new(env, "libc", json_string(libc));
	json_object_set_new(env, "cairn", json_string(CAIRN_VERSION));
	add_cpu(env);
	json_object_set_new(env, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	if (cpus_get(&all) == 0)
		json_object_set_new(env, "cpus_usable", json_integer(cpus_count(&all)));
	if (pages > 0 && page > 0)
		json_object_set_new(env, "memory_bytes", json_integer((json_int_t)pages * page));
	add_nvidia(env);
	for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
		const char *v = getenv(passed[i]);

		if (v)
			json_object_set_new(variables, passed[i], json_name(v, strnlen(v, 4096)));
	}
	json_object_set_new(env, "variables", variables);
	return env;
}
