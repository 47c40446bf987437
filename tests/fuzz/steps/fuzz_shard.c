/* The whole step on one file from bytes. The first byte says what it is called (bits 0-2) and how
 * the step is set (bit 3: bad samples are skipped, bit 4: rows have keys and files, bit 5: arrays
 * become NPY). When it says that it went well, its shards are whole: as many samples as its metrics
 * say, sorted, and none of them with a name that leads elsewhere. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "steps/shards/shards.h"
#include "steps/step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {
	"d.csv", "d.tsv", "d.jsonl",  "d-images-idx3-ubyte", "d-images-idx3-ubyte.gz",
	"d.tar", "d.zip", "d.tar.zst"
};

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_shard: %s\n", what);
	abort();
}

static json_t *settings(uint8_t how)
{
	json_t *with =
		json_pack("{sssisisisi}", "on_bad", how & 8 ? "skip" : "fail", "shards", 2,
			  "max_unpacked", 4 * (int)MIB, "max_file", (int)MIB, "max_samples", 100);

	if (how & 16) {
		json_object_set_new(with, "key", json_string("id"));
		json_object_set_new(with, "class", json_pack("{ss}", "column", "label"));
	}
	if (how & 32)
		json_object_set_new(with, "idx_as", json_string("npy"));
	return with;
}

static size_t count_samples(const char *dir)
{
	char **list, *before = NULL;
	size_t n_shards, n = 0;

	must(shard_list(dir, &list, &n_shards, NULL) == 0, "no shards");
	for (size_t i = 0; i < n_shards; i++) {
		struct shard_reader *r;
		struct shard_sample *s;
		int more;

		must(shard_reader_open(list[i], &r, NULL) == 0, "a shard can't be read");
		while ((more = shard_reader_next(r, &s, NULL)) == 1) {
			must(!before || strcmp(before, s->key) != 0, "a key twice");
			free(before);
			before = xstrdup(s->key);
			shard_sample_free(s);
			n++;
		}
		must(more == 0, "a shard isn't whole");
		shard_reader_free(r);
	}
	free(before);
	shard_list_free(list, n_shards);
	return n;
}

static void run_step(const char *in, const char *out, uint8_t how)
{
	const struct step_spec *spec = step_spec_find("shard");
	struct step_port input = { "data", in, false }, output = { "all", out, true };
	struct step_args a = { .spec = spec,
			       .inputs = &input,
			       .n_inputs = 1,
			       .outputs = &output,
			       .n_outputs = 1,
			       .threads = 1,
			       .metrics = json_object() };
	json_t *with = settings(how), *full;
	struct err err = { 0 };

	must(step_spec_complete(spec, with, &full, NULL) == 0, "settings");
	a.with = full;
	if (step_shard.run(&a, &err) < 0)
		must(err.code != ERR_NONE && *err.msg, "an error without a reason");
	else
		must((json_int_t)count_samples(out) ==
			     json_integer_value(json_object_get(a.metrics, "samples")),
		     "samples were lost");
	json_decref(with);
	json_decref(full);
	json_decref(a.metrics);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[64], in[128], out[128];

	if (size < 1 || size > 64 * KIB)
		return 0;
	snprintf(dir, sizeof(dir), "/tmp/cairn-fuzz-shard-%d", (int)getpid());
	snprintf(in, sizeof(in), "%s/%s", dir, names[data[0] & 7]);
	snprintf(out, sizeof(out), "%s/out", dir);
	if (fs_mkdir_p(dir, NULL) < 0 ||
	    fs_write_atomic_at(AT_FDCWD, in, data + 1, size - 1, 0644, FS_WRITE_NO_SYNC, NULL) < 0)
		return 0;
	run_step(in, out, data[0]);
	fs_remove_tree(dir, NULL);
	return 0;
}
