/* steps/spec/shard.c — the table of `shard`: its settings, ports and help.
 *
 * Only constants. RULES are the ways to find a word of a sample, shared by `class`, `split_by` and
 * `group_by`. The order of choices is that of the enums in steps/shard/ (step_choice()).
 * Which settings of splits exclude each other is checked by set_read_splits()
 * (steps/shard/assign.c).
 */
#include "steps/spec/tables.h"

static const struct spec_option nothing[] = { { 0 } };

static const struct spec_option folder[] = {
	{ "depth", SPEC_INT, .def = "1", .min = -64, .max = 64,
	  .help = "1: the outermost folder of the key; -1: the innermost" },
	{ 0 },
};
static const struct spec_option pattern[] = {
	{ "regex", SPEC_STRING, .required = true,
	  .help = "POSIX extended, looked for in the key; the first group in it, or all that "
		  "matches" },
	{ 0 },
};
static const struct spec_option column[] = {
	{ "name", SPEC_STRING, .required = true,
	  .help = "of a CSV table, or a key of JSON lines, or of the member json" },
	{ 0 },
};
static const struct spec_option field[] = {
	{ "name", SPEC_STRING, .required = true,
	  .help = "the suffix of a member, such as cls, whose text it is" },
	{ 0 },
};

/* Sources of a sample's word. */
#define RULES                                                                                   \
	{ "folder", SPEC_TABLE, .sub = folder, .help = "a folder of the key: {folder: 1}" },    \
		{ "pattern", SPEC_TABLE, .sub = pattern,                                        \
		  .help = "a part of the key: {pattern: '^([a-z]+)_'}" },                       \
		{ "column", SPEC_TABLE, .sub = column,                                          \
		  .help = "a column of the row: {column: label}" },                             \
	{                                                                                       \
		"field", SPEC_TABLE, .sub = field, .help = "the text of a member: {field: cls}" \
	}

static const struct spec_option class_rules[] = {
	{ "auto", SPEC_TABLE, .sub = nothing,
	  .help = "the member cls where there is one, else the outermost folder of the key, else "
		  "none" },
	{ "none", SPEC_TABLE, .sub = nothing, .help = "samples have no class" },
	RULES,
	{ 0 },
};
static const struct spec_option rules[] = { RULES, { 0 } };

static const struct spec_option pattern_item[] = { { "pattern", SPEC_STRING }, { 0 } };
static const struct spec_option class_item[] = { { "class", SPEC_STRING }, { 0 } };
static const struct spec_option fraction_item[] = { { "fraction", SPEC_FLOAT, .min = 0, .max = 1 },
						    { 0 } };
static const struct spec_option column_item[] = { { "column", SPEC_STRING }, { 0 } };

static const struct spec_option options[] = {
	{ "source", SPEC_CHOICE, .def = "\"auto\"",
	  .choices = "auto|files|archive|shards|csv|jsonl|idx", .help = "what `data` holds" },
	{ "include", SPEC_LIST, .sub = pattern_item,
	  .help = "only files (of one archive: members) whose path matches one of these, such as "
		  "train-*" },
	{ "exclude", SPEC_LIST, .sub = pattern_item,
	  .help = "and none of these; * matches across folders" },
	{ "suffix", SPEC_CHOICE, .def = "\"first_dot\"", .choices = "first_dot|last_dot",
	  .help = "where the key of a file name ends: a.0.jpg is member 0.jpg of a, or (last_dot) "
		  "jpg of a_0" },
	{ "key", SPEC_STRING,
	  .help = "tables: the column that holds the key; without it the file's name, else a "
		  "digest of the row" },
	{ "file", SPEC_STRING,
	  .help = "tables: the column that names a file, below the input `files` or beside the "
		  "table" },
	{ "members", SPEC_MAP, .sub = column_item,
	  .help = "tables: members made of columns, {txt: review}; the whole row is the member "
		  "json" },
	{ "separator", SPEC_STRING,
	  .help = "CSV: the character between fields (default: a comma; a tab for .tsv)" },
	{ "idx_as", SPEC_CHOICE, .def = "\"png\"", .choices = "png|npy",
	  .help = "what an array of an IDX file becomes" },
	{ "class", SPEC_VARIANT, .def = "\"auto\"", .sub = class_rules,
	  .help = "where a sample's class comes from" },
	{ "class_as", SPEC_CHOICE, .def = "\"index\"", .choices = "index|name|none",
	  .help = "index: member cls, a number; name: member class.txt; a sample that has the "
		  "member keeps its own" },
	{ "classes", SPEC_LIST, .sub = class_item,
	  .help = "all classes in the order of their numbers, so that a new one renumbers no other "
		  "(default: sorted; numbers stay themselves)" },
	{ "split", SPEC_MAP, .sub = fraction_item,
	  .help = "fractions of the outputs, which sum to 1: {train: 0.9, val: 0.1}" },
	{ "split_by", SPEC_VARIANT, .sub = rules,
	  .help = "instead of `split`: what gives the name of a sample's output" },
	{ "group_by", SPEC_VARIANT, .sub = rules,
	  .help = "samples with the same word are never split between outputs" },
	{ "stratify", SPEC_BOOL, .def = "false",
	  .help = "each class is split by these fractions, exactly" },
	{ "shards", SPEC_INT, .min = 1, .max = 999999,
	  .help = "shards of each output (instead of samples_per_shard)" },
	{ "samples_per_shard", SPEC_INT, .def = "1000", .min = 1, .max = 1e9,
	  .help = "about so many: there are 2^k shards, of 2/3 to 4/3 of it" },
	{ "max_samples", SPEC_INT, .min = 1, .max = 1e9,
	  .help = "a shard with more is cut in parts -a, -b, ..." },
	{ "max_bytes", SPEC_BYTES, .min = 1024, .max = 1e15,
	  .help = "a shard with more bytes (before compression) is cut too; one sample never is" },
	{ "shuffle", SPEC_BOOL, .def = "false",
	  .help = "order inside a shard by seed, not by key" },
	{ "seed", SPEC_INT, .def = "0",
	  .help = "of the assignment to splits and shards, and of the order" },
	{ "zstd", SPEC_INT, .def = "0", .min = 0, .max = 19,
	  .help = "compress shards (.tar.zst) at this level; 0: don't" },
	{ "on_bad", SPEC_CHOICE, .def = "\"fail\"", .choices = "fail|skip",
	  .help = "what a bad sample does: end the step, or be left out and counted" },
	{ "allow_empty", SPEC_BOOL, .def = "false", .help = "no samples at all is no error" },
	{ "max_file", SPEC_BYTES, .def = "\"1Gi\"", .min = 1, .max = 4294967296.0,
	  .help = "a file or member with more bytes is bad" },
	{ "max_unpacked", SPEC_BYTES, .def = "\"1Ti\"", .min = 1, .max = 1e18,
	  .help = "one archive that unpacks to more bytes ends the step" },
	{ "max_ratio", SPEC_INT, .def = "200", .min = 1, .max = 1e9,
	  .help = "so does one that unpacks to more than so many times its size (over 64Mi)" },
	{ 0 },
};

static const struct spec_port inputs[] = {
	{ "data", true, "a directory, an archive, a table or an IDX file" },
	{ "files", false, "tables: the directory below which the named files are" },
	{ 0 },
};
static const struct spec_port outputs[] = {
	{ "*", true, "a directory of shards; several are splits, by their names" },
	{ 0 },
};

static const char about[] =
	"Turns samples into WebDataset shards: plain tar files that the Python package webdataset, "
	"PyTorch's DataLoader and tar read as they\n"
	"are. Members of one sample stand together and share a key; what follows the first dot of "
	"the name says what a member is:\n"
	"\n"
	"    cat/001.cls    cat/001.jpg    cat/002.cls    cat/002.jpg ...\n"
	"\n"
	"Sources (`source`; recognised from the data where that is possible):\n"
	"  files    a tree of files; those that share folder and name up to the first dot are one "
	"sample\n"
	"  archive  the same in a tar or zip, compressed or not; read once, from the front\n"
	"  shards   a set of shards, to be sharded in another way\n"
	"  csv, jsonl  one sample a row: the member json, and the file that it names in the column "
	"given by `file`\n"
	"  idx      MNIST's format, also gzipped: NAME-images-idx3-ubyte and "
	"NAME-labels-idx1-ubyte\n"
	"\n"
	"Which shard a sample is in depends on nothing but its key: SHA-256 of (`cairn shard 1`, "
	"NUL, seed as 8 bytes little endian, key)\n"
	"gives three numbers u of 64 bits each, big endian: bytes 0-7 for the split, 8-15 for the "
	"shard, 16-23 for the order in it (shuffle).\n"
	"The shard is floor(u * shards / 2^64). So adding or removing a sample changes its own "
	"shard and no other, as long as the number of shards\n"
	"stays: it is what `shards` says, or the least power of two that gives shards of at most "
	"4/3 samples_per_shard on average, so that it doubles\n"
	"once while the samples double. Shards with more than max_samples or max_bytes are cut in "
	"parts shard-000007-a.tar, shard-000007-b.tar.\n"
	"\n"
	"Splits: the outputs sorted by name share the range of u by their fractions. With group_by "
	"u comes from the group's word, so no group is in two splits.\n"
	"With stratify each class is sorted by u and cut at its exact fractions: one sample more "
	"moves at most one other of its class over each cut.\n"
	"\n"
	"Each output gets index.json (for each shard samples, bytes, sha256; for each sample its "
	"key and offset in the tar) and stats.json (classes,\n"
	"sizes, samples with the same content, also across outputs). Metrics: samples, shards, "
	"bytes, classes, duplicates, skipped by reason.\n"
	"\n"
	"Bad samples (the same key twice, no suffix, unsafe paths, links that lead out, unreadable "
	"or over a limit) end the step with an error that names\n"
	"the sample; `on_bad: skip` leaves them out, says how many, and counts them in the "
	"metrics. What comes behind damage in an archive is lost\n"
	"with it, and the sample that it breaks off in. Archive bombs and tables whose rows can't "
	"be told apart end the step in any case.";

const struct step_spec spec_shard = {
	.name = "shard",
	.summary = "samples from files, archives, tables or IDX to WebDataset shards",
	.about = about,
	.version = 2,
	.inputs = inputs,
	.outputs = outputs,
	.options = options,
	.metrics = "metrics.json",
	.example = "  shard:\n"
		   "    uses: shard\n"
		   "    with: {split: {train: 0.9, val: 0.1}, samples_per_shard: 1000, seed: 7}\n"
		   "    inputs: {data: \"${{ inputs.photos }}\"}    # photos/cat/001.jpg, "
		   "photos/dog/001.jpg, ...\n"
		   "    outputs: {train: train/, val: val/}\n",
};
