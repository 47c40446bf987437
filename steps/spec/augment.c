/* steps/spec/augment.c — the table of `augment`: its settings, one table for each op, its ports and
 * its help.
 *
 * Only constants. Lists of several settings share their element's row (`side`, `unit`, `level` …);
 * macros stand for settings that several ops have. Each op's compile function in steps/augment/
 * checks rules that limits can't express (which of two numbers must be the larger).
 */
#include "steps/spec/tables.h"

#define AT_LEAST_0 .min = 0, .max = SPEC_UNBOUNDED_MAX
#define UNIT       .min = 0, .max = 1
#define SIDE_MAX   65500 /* of a JPEG */

static const struct spec_option side[] = {
	{ .name = "side", .type = SPEC_INT, .min = 1, .max = SIDE_MAX }, { 0 }
};
static const struct spec_option number[] = { { .name = "number", .type = SPEC_FLOAT }, { 0 } };
static const struct spec_option amount[] = { { .name = "number", .type = SPEC_FLOAT, AT_LEAST_0 },
					     { 0 } };
static const struct spec_option unit[] = { { .name = "number", .type = SPEC_FLOAT, UNIT }, { 0 } };
static const struct spec_option level[] = {
	{ .name = "level", .type = SPEC_INT, .min = 0, .max = 255 }, { 0 }
};
static const struct spec_option padding[] = {
	{ .name = "pixels", .type = SPEC_INT, .min = 0, .max = SIDE_MAX }, { 0 }
};
static const struct spec_option degrees[] = {
	{ .name = "degrees", .type = SPEC_FLOAT, .min = -360, .max = 360 }, { 0 }
};
static const struct spec_option shears[] = {
	{ .name = "degrees", .type = SPEC_FLOAT, .min = -89, .max = 89 }, { 0 }
};
static const struct spec_option fields[] = { { .name = "field", .type = SPEC_STRING }, { 0 } };

/* clang-format off */
#define SIZE(text) \
	{ .name = "size", .type = SPEC_LIST, .required = true, .min = 1, .max = 2, \
	  .sub = side, .help = text }
#define FILTER(of) \
	{ .name = "filter", .type = SPEC_CHOICE, .def = "\"bilinear\"", \
	  .choices = "nearest|box|bilinear|bicubic|lanczos", \
	  .help = "how " of " are weighed; widened when shrinking (antialias), but for nearest" }
#define WARP_FILTER \
	{ .name = "filter", .type = SPEC_CHOICE, .def = "\"nearest\"", \
	  .choices = "nearest|bilinear", .help = "how pixels between pixels are made" }
#define FILL \
	{ .name = "fill", .type = SPEC_LIST, .def = "[0]", .min = 1, .max = 3, .sub = level, \
	  .help = "what is put where there is no image: one level, or red, green, blue" }
#define CHANCE(p) \
	{ .name = "p", .type = SPEC_FLOAT, .def = p, UNIT, .help = "how likely it is applied" }
/* clang-format on */

static const struct spec_option resize[] = {
	SIZE("the shorter side (the other one keeps the proportion), or [height, width]"),
	FILTER("pixels"),
	{ 0 },
};
static const struct spec_option center_crop[] = { SIZE("a square's side, or [height, width]"),
						  FILL,
						  { 0 } };
static const struct spec_option random_crop[] = {
	SIZE("a square's side, or [height, width]"),
	{ .name = "padding",
	  .type = SPEC_LIST,
	  .def = "[0]",
	  .min = 1,
	  .max = 4,
	  .sub = padding,
	  .help = "pixels put around first: all sides, [left and right, top and bottom], or [left, "
		  "top, right, bottom]" },
	{ .name = "mode",
	  .type = SPEC_CHOICE,
	  .def = "\"constant\"",
	  .choices = "constant|edge|reflect|symmetric",
	  .help = "what they are: `fill`, the border repeated, or mirrored (without, with the "
		  "border itself)" },
	{ .name = "pad_if_needed",
	  .type = SPEC_BOOL,
	  .def = "false",
	  .help = "pad an image that is smaller than `size` (else it is an error)" },
	FILL,
	{ 0 },
};
static const struct spec_option random_resized_crop[] = {
	SIZE("of the result: a square's side, or [height, width]"),
	{ .name = "scale",
	  .type = SPEC_LIST,
	  .def = "[0.08, 1.0]",
	  .min = 2,
	  .max = 2,
	  .sub = unit,
	  .help = "the part of the area that is kept: [least, most]" },
	{ .name = "ratio",
	  .type = SPEC_LIST,
	  .def = "[0.75, 1.3333333333333333]",
	  .min = 2,
	  .max = 2,
	  .sub = amount,
	  .help = "width / height of what is kept: [least, most]" },
	FILTER("pixels"),
	{ 0 },
};
static const struct spec_option flip[] = {
	{ .name = "direction",
	  .type = SPEC_CHOICE,
	  .def = "\"horizontal\"",
	  .choices = "horizontal|vertical",
	  .help = "left and right, or top and bottom" },
	CHANCE("0.5"),
	{ 0 },
};
static const struct spec_option rotate[] = {
	{ .name = "degrees",
	  .type = SPEC_LIST,
	  .required = true,
	  .min = 1,
	  .max = 2,
	  .sub = degrees,
	  .help = "counter-clockwise, about the middle: [from, to], or d for [-d, d]" },
	{ .name = "expand",
	  .type = SPEC_BOOL,
	  .def = "false",
	  .help = "make the image large enough for all of it" },
	WARP_FILTER,
	FILL,
	CHANCE("1.0"),
	{ 0 },
};
static const struct spec_option affine[] = {
	{ .name = "degrees",
	  .type = SPEC_LIST,
	  .def = "[0]",
	  .min = 1,
	  .max = 2,
	  .sub = degrees,
	  .help = "clockwise: [from, to], or d for [-d, d]" },
	{ .name = "translate",
	  .type = SPEC_LIST,
	  .def = "[0, 0]",
	  .min = 2,
	  .max = 2,
	  .sub = unit,
	  .help = "at most that part of the width and of the height, either way" },
	{ .name = "scale",
	  .type = SPEC_LIST,
	  .def = "[1, 1]",
	  .min = 2,
	  .max = 2,
	  .sub = amount,
	  .help = "larger by: [least, most]" },
	{ .name = "shear",
	  .type = SPEC_LIST,
	  .def = "[0]",
	  .min = 1,
	  .max = 4,
	  .sub = shears,
	  .help = "degrees along x: [from, to] or d for [-d, d]; [x from, x to, y from, y to]" },
	WARP_FILTER,
	FILL,
	CHANCE("1.0"),
	{ 0 },
};
static const struct spec_option color_jitter[] = {
	{ .name = "brightness",
	  .type = SPEC_LIST,
	  .def = "[0]",
	  .min = 1,
	  .max = 2,
	  .sub = amount,
	  .help = "factor: [least, most], or x for [max(0, 1 - x), 1 + x]" },
	{ .name = "contrast",
	  .type = SPEC_LIST,
	  .def = "[0]",
	  .min = 1,
	  .max = 2,
	  .sub = amount,
	  .help = "the same, about the mean of the grays" },
	{ .name = "saturation",
	  .type = SPEC_LIST,
	  .def = "[0]",
	  .min = 1,
	  .max = 2,
	  .sub = amount,
	  .help = "the same, about each pixel's gray" },
	{ .name = "hue",
	  .type = SPEC_LIST,
	  .def = "[0]",
	  .min = 1,
	  .max = 2,
	  .sub = number,
	  .help = "turns: [least, most] within -0.5..0.5, or x for [-x, x]" },
	CHANCE("1.0"),
	{ 0 },
};
static const struct spec_option grayscale[] = {
	CHANCE("1.0"),
	{ .name = "channels",
	  .type = SPEC_CHOICE,
	  .def = "\"keep\"",
	  .choices = "keep|1",
	  .help = "keep: as many as there were, all the same; 1: one (p must be 1)" },
	{ 0 },
};
static const struct spec_option blur[] = {
	{ .name = "sigma",
	  .type = SPEC_LIST,
	  .def = "[0.1, 2.0]",
	  .min = 1,
	  .max = 2,
	  .sub = amount,
	  .help = "pixels: [least, most], or always the same" },
	{ .name = "kernel",
	  .type = SPEC_INT,
	  .def = "0",
	  .min = 0,
	  .max = 255,
	  .help = "its width in pixels, an odd number; 0: 2 ceil(3 sigma) + 1" },
	CHANCE("1.0"),
	{ 0 },
};
static const struct spec_option noise[] = {
	{ .name = "sigma",
	  .type = SPEC_LIST,
	  .def = "[0.1]",
	  .min = 1,
	  .max = 2,
	  .sub = unit,
	  .help = "standard deviation, 1 is the full range: [least, most], or always the same" },
	CHANCE("1.0"),
	{ 0 },
};
static const struct spec_option cutout[] = {
	{ .name = "size",
	  .type = SPEC_LIST,
	  .def = "[16]",
	  .min = 1,
	  .max = 2,
	  .sub = side,
	  .help = "pixels: a square's side, or [height, width]" },
	{ .name = "holes",
	  .type = SPEC_INT,
	  .def = "1",
	  .min = 1,
	  .max = 16,
	  .help = "how many; each is centred on a pixel of the image, and cut off at its border" },
	FILL,
	CHANCE("1.0"),
	{ 0 },
};
static const struct spec_option normalize[] = {
	{ .name = "mean",
	  .type = SPEC_LIST,
	  .def = "[0]",
	  .min = 1,
	  .max = 3,
	  .sub = number,
	  .help = "of the levels in 0..1: one, or red, green, blue" },
	{ .name = "std",
	  .type = SPEC_LIST,
	  .def = "[1]",
	  .min = 1,
	  .max = 3,
	  .sub = amount,
	  .help = "the result is (level / 255 - mean) / std" },
	{ .name = "layout",
	  .type = SPEC_CHOICE,
	  .def = "\"chw\"",
	  .choices = "chw|hwc",
	  .help = "channels first, as PyTorch has it, or last" },
	{ 0 },
};
static const struct spec_option rand_augment[] = {
	{ .name = "n",
	  .type = SPEC_INT,
	  .def = "2",
	  .min = 1,
	  .max = 14,
	  .help = "operations an image" },
	{ .name = "magnitude",
	  .type = SPEC_INT,
	  .def = "9",
	  .min = 0,
	  .max = 1000,
	  .help = "from 0 to bins - 1" },
	{ .name = "bins",
	  .type = SPEC_INT,
	  .def = "31",
	  .min = 2,
	  .max = 1001,
	  .help = "how many magnitudes there are" },
	WARP_FILTER,
	FILL,
	{ 0 },
};

static const struct spec_option ops[] = {
	{ .name = "resize", .type = SPEC_TABLE, .sub = resize, .help = "to a size" },
	{ .name = "center_crop",
	  .type = SPEC_TABLE,
	  .sub = center_crop,
	  .help = "the middle; filled where the image is smaller" },
	{ .name = "random_crop",
	  .type = SPEC_TABLE,
	  .sub = random_crop,
	  .help = "a window of a fixed size" },
	{ .name = "random_resized_crop",
	  .type = SPEC_TABLE,
	  .sub = random_resized_crop,
	  .help = "a window of any size and shape, made `size` large" },
	{ .name = "flip", .type = SPEC_TABLE, .sub = flip, .help = "mirror" },
	{ .name = "rotate", .type = SPEC_TABLE, .sub = rotate, .help = "turn by an angle" },
	{ .name = "affine",
	  .type = SPEC_TABLE,
	  .sub = affine,
	  .help = "turn, shear, scale, move; about the middle" },
	{ .name = "color_jitter",
	  .type = SPEC_TABLE,
	  .sub = color_jitter,
	  .help = "brightness, contrast, saturation, hue, in any order" },
	{ .name = "grayscale",
	  .type = SPEC_TABLE,
	  .sub = grayscale,
	  .help = "without colours (ITU-R BT.601 luma)" },
	{ .name = "blur",
	  .type = SPEC_TABLE,
	  .sub = blur,
	  .help = "Gaussian, mirrored at the border" },
	{ .name = "noise",
	  .type = SPEC_TABLE,
	  .sub = noise,
	  .help = "Gaussian, each channel of each pixel alone" },
	{ .name = "cutout",
	  .type = SPEC_TABLE,
	  .sub = cutout,
	  .help = "holes (DeVries & Taylor 2017)" },
	{ .name = "normalize",
	  .type = SPEC_TABLE,
	  .sub = normalize,
	  .help = "float32 for training; the last one; the result is an NPY file" },
	{ .name = "rand_augment",
	  .type = SPEC_TABLE,
	  .sub = rand_augment,
	  .help = "RandAugment (Cubuk et al. 2020), the 14 operations with torchvision's ranges" },
	{ 0 },
};
static const struct spec_option op_list[] = { { .name = "op", .type = SPEC_VARIANT, .sub = ops },
					      { 0 } };

static const struct spec_option options[] = {
	{ .name = "ops",
	  .type = SPEC_LIST,
	  .required = true,
	  .min = 0,
	  .max = 64,
	  .sub = op_list,
	  .help = "what is done to each image, in this order:" },
	{ .name = "seed", .type = SPEC_INT, .def = "0", .help = "of all randomness" },
	{ .name = "copies",
	  .type = SPEC_INT,
	  .def = "1",
	  .min = 1,
	  .max = 10000,
	  .help = "results a sample; over 1 their keys are KEY-0, KEY-1, ..." },
	{ .name = "image",
	  .type = SPEC_LIST,
	  .def = "[]",
	  .min = 0,
	  .max = 64,
	  .sub = fields,
	  .help = "the fields that are images; none given: all that end in jpg, jpeg, png, or if "
		  "there is none, in npy" },
	{ .name = "masks",
	  .type = SPEC_LIST,
	  .def = "[]",
	  .min = 0,
	  .max = 64,
	  .sub = fields,
	  .help = "fields that are label maps: moved as the images are, by the nearest pixel, "
		  "colours untouched" },
	{ .name = "to",
	  .type = SPEC_CHOICE,
	  .def = "\"keep\"",
	  .choices = "keep|jpeg|png|npy",
	  .help = "the format of the results" },
	{ .name = "quality",
	  .type = SPEC_INT,
	  .def = "90",
	  .min = 1,
	  .max = 100,
	  .help = "of JPEG; below 95 colours are halved in both directions (4:2:0)" },
	{ .name = "compression",
	  .type = SPEC_INT,
	  .def = "6",
	  .min = 0,
	  .max = 9,
	  .help = "of PNG, by zlib" },
	{ .name = "orientation",
	  .type = SPEC_CHOICE,
	  .def = "\"apply\"",
	  .choices = "apply|ignore",
	  .help = "what becomes of EXIF's: images are turned upright first, or taken as they are "
		  "stored" },
	{ .name = "background",
	  .type = SPEC_LIST,
	  .def = "[]",
	  .min = 0,
	  .max = 3,
	  .sub = level,
	  .help = "what transparent images are put on; none given: transparency is dropped" },
	{ .name = "scaled_decode",
	  .type = SPEC_BOOL,
	  .def = "true",
	  .help = "read a JPEG at 1/2, 1/4 or 1/8 when the first op shrinks to at most half of "
		  "that" },
	{ .name = "on_bad",
	  .type = SPEC_CHOICE,
	  .def = "\"fail\"",
	  .choices = "fail|skip|keep",
	  .help = "a sample with a broken image, without one, or with a result that no shard can "
		  "hold ends the step, is dropped, or is passed on as it is" },
	{ .name = "record",
	  .type = SPEC_BOOL,
	  .def = "false",
	  .help = "add a field augment.json with what was drawn for each image" },
	{ .name = "max_pixels",
	  .type = SPEC_INT,
	  .def = "100000000",
	  .min = 1,
	  .max = 1e9,
	  .help = "a larger image is a broken one" },
	{ 0 },
};

static const struct spec_port inputs[] = {
	{ "shard", true,
	  "a shard (tar of samples KEY.FIELD, also compressed), or a directory of them" },
	{ 0 },
};
static const struct spec_port outputs[] = {
	{ "shard", true,
	  "the shard to write; a directory (path ends in /) gets shards of the same names" },
	{ 0 },
};

static const char about[] =
	"Reads WebDataset shards, changes the images of each sample, and writes shards; all other "
	"fields travel along. Images are JPEG, PNG, or NPY\n"
	"arrays of unsigned 8-bit levels (height x width, or x 1, 3 or 4 channels); what a field "
	"is, is seen from its bytes. A field that changes its format\n"
	"changes its name's last part (`jpg` -> `png`).\n"
	"\n"
	"The same seed gives the same bytes, on any number of threads and in any order of samples: "
	"what op number i does to copy c of a sample is drawn by\n"
	"Philox4x32-10 (Salmon et al. 2011) with the key SHA-256(\"cairn augment\", seed, the "
	"sample's key)[0..8) and the counter (n, i, c, 0). All images of a\n"
	"sample get the same draws, so that an image and its mask stay together. `record: true` "
	"writes down what was drawn.\n"
	"\n"
	"Pixels: 8 bits a channel, gray or RGB. 16-bit colour PNG is scaled to 8, palettes are "
	"looked up, transparency goes (see `background`), CMYK JPEG becomes RGB\n"
	"without a colour profile. Resizing, rotation and colours follow Pillow and torchvision to "
	"the pixel, or within 2 levels. When the first op takes\n"
	"a part of a JPEG, only that part is decoded; that gives the same pixels. `scaled_decode` "
	"doesn't: it averages in blocks of 2, 4 or 8 first, and then resizes\n"
	"from there, from at least twice the size that is wanted.\n"
	"\n"
	"A 16-bit gray PNG keeps its levels as a mask (labels, depths); as an image it is scaled "
	"to 8 bits if `image` names it, and refused if not.\n"
	"\n"
	"A mask has the size of an image of its sample, both upright. Where EXIF turns the image "
	"and nothing tells which way up the mask was drawn, the\n"
	"sample is bad. So is one without any image, and one with a broken image: it can't be "
	"decoded, is cut off, or has more than `max_pixels`.\n"
	"`on_bad` says what happens to bad samples; metrics count them. Hue is turned as "
	"torchvision does with tensors, not as Pillow does.";

static const char example[] =
	"  augment:\n"
	"    uses: augment\n"
	"    each: \"${{ steps.shard.outputs.train }}/*.tar\"\n"
	"    with:\n"
	"      seed: 7\n"
	"      ops:\n"
	"        - random_resized_crop: 224\n"
	"        - flip: horizontal\n"
	"        - color_jitter: {brightness: 0.4, contrast: 0.4, saturation: 0.4}\n"
	"    inputs: {shard: \"${{ item }}\"}\n"
	"    outputs: {shard: out.tar}\n";

const struct step_spec spec_augment = {
	.name = "augment",
	.summary = "changes the images of shards: crops, flips, colours, RandAugment; the same for "
		   "a seed",
	.about = about,
	.version = 2,
	.inputs = inputs,
	.outputs = outputs,
	.options = options,
	.metrics = "metrics.json",
	.example = example,
};
