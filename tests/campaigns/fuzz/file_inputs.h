/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Inputs that fuzz_files.c writes: made from the contents of files, from words
 * and names that were met, from numbers near limits, and from inputs that had a
 * new answer.
 */
#ifndef FILE_INPUTS_H
#define FILE_INPUTS_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX	1024
#define SAMPLE		256
#define WORDS		512
#define KEPT		64
#define INPUT		512
#define PAGE		4096

#define COUNT(array)	(sizeof(array) / sizeof(*(array)))

enum input {
	AS_READ, ONE_NUMBER, NUMBERS, SOME_WORDS, PAIRS, MUTATED, BINARY,
	NEWLINES, LONG, EMPTY, KEPT_ONE, INPUTS
};

static const char *const input_names[] = {
	"as-read", "number", "numbers", "words", "name=value", "mutated", "binary",
	"newlines", "long", "empty", "kept-mutated",
};

/* Each process's own. */
static uint64_t state;
static char sample[FILES_MAX][SAMPLE];	/* what the file said last */
static uint32_t sample_size[FILES_MAX];
static char words[WORDS][32];
static uint32_t word_count;		/* of those from paths; others follow */
static uint32_t words_met;
static struct {
	char data[INPUT];
	uint32_t size;
} kept[KEPT];
static uint32_t kept_count;

static uint32_t step(uint64_t *from)
{
	*from ^= *from << 13;
	*from ^= *from >> 7;
	*from ^= *from << 17;
	return (uint32_t)((*from * 0x2545f4914f6cdd1dULL) >> 32);
}

static uint32_t draw(uint32_t below)
{
	return step(&state) % below;
}

static void learn_word(const char *text, size_t size, uint32_t slot)
{
	if (size > sizeof(*words) - 1)
		size = sizeof(*words) - 1;
	memcpy(words[slot], text, size);
	words[slot][size] = '\0';
}

static void learn_path(const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	uint32_t i;

	for (i = 0; i < word_count; i++)
		if (!strcmp(words[i], name))
			return;
	if (word_count < WORDS / 2)
		learn_word(name, strlen(name), word_count++);
}

/* One word of a text, at a random place. */
static void learn_text(const char *text, uint32_t size)
{
	static const char between[] = " \t\n,=:|#";
	uint32_t start = draw(size);
	uint32_t end;

	while (start && !strchr(between, text[start - 1]))
		start--;
	for (end = start; end < size && !strchr(between, text[end]);)
		end++;
	if (end > start)
		learn_word(text + start, end - start,
			   word_count + words_met++ % (WORDS - word_count));
}

static const char *any_word(void)
{
	uint32_t met = words_met < WORDS - word_count ? words_met :
							WORDS - word_count;

	return words[draw(word_count + met)];
}

static int put_number(char *text)
{
	static const char *const odd[] = {
		"0", "1", "-1", "00", "+1", "2147483647", "2147483648",
		"4294967295", "4294967296", "9223372036854775807",
		"-9223372036854775808", "18446744073709551615",
		"18446744073709551616", "1e9", "0x", "08", "1 ", " 1", "1.5",
		"99999999999999999999999999999999999999999999999999999999999",
	};
	uint32_t bits = draw(draw(2) ? 11 : 33);
	uint32_t number = (uint32_t)(step(&state) & ((1ULL << bits) - 1));

	switch (draw(8)) {
	case 0:
		return sprintf(text, "%s", odd[draw(COUNT(odd))]);
	case 1:
		return sprintf(text, "%#x", number);
	case 2:
		return sprintf(text, "-%u", number);
	case 3:
		return sprintf(text, "%d", getpid() - (int)draw(2));
	}
	return sprintf(text, "%u", number);
}

/* The file's contents, or a line of them, with one number replaced. */
static uint32_t put_number_in(uint32_t file, char *text)
{
	const char *said = sample[file];
	uint32_t size = sample_size[file];
	uint32_t start = size ? draw(size) : 0;
	uint32_t end;

	while (start < size && (said[start] < '0' || said[start] > '9'))
		start++;
	for (end = start; end < size && said[end] >= '0' && said[end] <= '9';)
		end++;
	memcpy(text, said, start);
	start += (uint32_t)put_number(text + start);
	memcpy(text + start, said + end, size - end);
	return start + size - end;
}

static uint32_t put_words(char *text)
{
	uint32_t n = 1 + draw(draw(4) ? 2 : 6);
	char *at = text;

	while (n--) {
		at += draw(4) ? sprintf(at, "%s", any_word()) : put_number(at);
		if (n)
			*at++ = ' ';
	}
	return (uint32_t)(at - text);
}

/* Up to three, of which the first may well be a process. */
static uint32_t put_numbers(char *text)
{
	uint32_t n = draw(3);
	char *at = text;

	at += draw(2) ? sprintf(at, "%d", getpid()) : put_number(at);
	while (n--) {
		*at++ = ' ';
		at += put_number(at);
	}
	return (uint32_t)(at - text);
}

static uint32_t put_pairs(char *text)
{
	uint32_t n = 1 + draw(3);
	char *at = text;

	while (n--) {
		at += sprintf(at, "%s=", any_word());
		at += draw(2) ? put_number(at) : sprintf(at, "%s", any_word());
		if (n)
			*at++ = " ,\n\t"[draw(4)];
	}
	return (uint32_t)(at - text);
}

/* Some bytes replaced, doubled or taken out; there is room for more. */
static uint32_t mutate(char *text, uint32_t size)
{
	uint32_t n = 1 + draw(4);

	while (n-- && size) {
		uint32_t at = draw(size);

		switch (draw(6)) {
		case 0:
			text[at] ^= (char)(1U << draw(8));
			break;
		case 1:
			text[at] = '\0';
			break;
		case 2:
			text[at] = (char)draw(256);
			break;
		case 3:
			memmove(text + at, text + at + 1, size - at - 1);
			size--;
			break;
		case 4:
			memmove(text + at + 1, text + at, size - at);
			size++;
			break;
		case 5:
			size = at;
			break;
		}
	}
	return size;
}

static uint32_t put_long(uint32_t file, char *text)
{
	static const uint32_t sizes[] = {
		127, 128, 129, 1023, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 65536,
	};
	uint32_t size = sizes[draw(COUNT(sizes))];
	uint32_t i;

	for (i = 0; i < size; i++)
		text[i] = sample_size[file] ? sample[file][i % sample_size[file]] :
					      '1';
	return size;
}

static uint32_t put_kept(char *text)
{
	uint32_t i;

	if (!kept_count)
		return put_words(text);
	i = draw(kept_count < KEPT ? kept_count : KEPT);
	memcpy(text, kept[i].data, kept[i].size);
	return mutate(text, kept[i].size);
}

static uint32_t put_input(uint32_t file, enum input kind, char *text)
{
	uint32_t size = 0;
	uint32_t from = 0;

	switch (kind) {
	case AS_READ:
		memcpy(text, sample[file], sample_size[file]);
		return sample_size[file];
	case ONE_NUMBER:
		size = draw(2) ? put_number_in(file, text) :
				 (uint32_t)put_number(text);
		break;
	case NUMBERS:
		size = put_numbers(text);
		break;
	case SOME_WORDS:
		size = put_words(text);
		break;
	case PAIRS:
		size = put_pairs(text);
		break;
	case MUTATED:
		memcpy(text, sample[file], sample_size[file]);
		return mutate(text, sample_size[file]);
	case BINARY:
		for (size = draw(64); from < size; from++)
			text[from] = (char)draw(256);
		return size;
	case NEWLINES:
		size = put_words(text);
		memset(text + size, '\n', 64);
		return size + draw(64);
	case LONG:
		return put_long(file, text);
	case KEPT_ONE:
		return put_kept(text);
	case EMPTY:
	case INPUTS:
		return 0;
	}
	if (draw(4))
		text[size++] = '\n';
	return size;
}

static void keep(const char *text, uint32_t size)
{
	uint32_t i = kept_count++ % KEPT;

	kept[i].size = size < INPUT / 2 ? size : INPUT / 2;
	memcpy(kept[i].data, text, kept[i].size);
}

#endif /* FILE_INPUTS_H */
