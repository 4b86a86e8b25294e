// SPDX-License-Identifier: GPL-2.0
/*
 * cil-bpf: loads programs of the governor bpf, and looks at them. The command
 * `cpuidle-lab bpf` runs it; the lab's guest has it.
 *
 *   cil-bpf attach OBJECT [PIN]     attaches; then obeys lines on its standard
 *                                   input until it ends
 *       replace OBJECT              the same link, another program
 *   cil-bpf dump                    the state, as the program has it
 *   cil-bpf call OBJECT PROGRAM     runs a program of the type syscall
 *
 * Each answer is one line on the standard output that begins with "ok" or
 * "error". With PIN the link is pinned there and the loader ends; otherwise the
 * end of the loader detaches the program.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LOG_SIZE     (1 << 20)
#define LOG_LINES    12

/* Where the arena is mapped: another process must map it there, too. */
#ifdef __x86_64__
#define ARENA_AT     (1ULL << 44)
#else
#define ARENA_AT     (1ULL << 32)
#endif

/* Beginning of the module's lines in the kernel's log. */
#define MODULE_LINE  "cpuidle_lab: bpf: "
#define LEVEL_ERROR  3

static char said_last[512];
static char verifier_log[LOG_SIZE];

/* The kernel's log since the last load began. */
static int kernel_log = -1;

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* The last warning of libbpf but the general one is the reason of what it refuses itself. */
static int remember_warning(enum libbpf_print_level level, const char *format, va_list args)
{
	if (level == LIBBPF_WARN && !strstr(format, "failed to load object"))
		vsnprintf(said_last, sizeof(said_last), format, args);
	return 0;
}

static int answer_error(const char *what, int error)
{
	size_t end = strcspn(said_last, "\n");
	char why[128];

	said_last[end] = '\0';
	libbpf_strerror(error, why, sizeof(why));
	printf("error %s: %s%s%s\n", what, why, *said_last ? "; " : "", said_last);
	fflush(stdout);
	return 1;
}

/*
 * The module writes into the kernel's log why it refuses a program: the system
 * call returns a number alone.
 */
static bool answer_of_module(void)
{
	char record[1024], *line, *why = NULL;
	ssize_t length;

	while (!why && (length = read(kernel_log, record, sizeof(record) - 1)) > 0) {
		record[length] = '\0';
		line = strstr(record, MODULE_LINE);
		if (line && atoi(record) == LEVEL_ERROR)
			why = line + strlen(MODULE_LINE);
	}
	if (!why)
		return false;
	printf("error the module refuses the program: %.*s\n", (int)strcspn(why, "\n"), why);
	fflush(stdout);
	return true;
}

/* The last line of the log that begins with a text; where it begins. */
static char *last_line(const char *start)
{
	char *found = NULL, *line = verifier_log;

	while (line && *line) {
		if (!strncmp(line, start, strlen(start)))
			found = line;
		line = strchr(line, '\n');
		line += !!line;
	}
	return found;
}

/* Since Linux 7.3 a report at the end explains what the log says before. */
static char *find_report(void)
{
	return last_line("Verification failed: ");
}

/* The verifier says at the end why, and shortly before from which line of the source. */
static void print_log_end(const char *program)
{
	const char *from = find_report();
	int lines = 0;

	if (!from) {
		from = verifier_log + strlen(verifier_log);
		while (from > verifier_log && lines <= LOG_LINES)
			if (*--from == '\n')
				lines++;
	}
	fprintf(stderr, "the verifier's last lines for %s:\n%s\n", program, from);
}

/* One line of the verifier's log: the reason stands before the report or the counts. */
static bool answer_of_verifier(void)
{
	char *end = find_report() ?: last_line("processed ");
	char *source, *at, *reason;

	while (end && end > verifier_log && end[-1] == '\n')
		*--end = '\0';
	if (!end || end == verifier_log)
		return false;
	source = last_line("; ");
	at = source ? strstr(source, " @ ") : NULL;
	reason = strrchr(verifier_log, '\n');
	printf("error the verifier refuses the program: %s", reason ? reason + 1 : verifier_log);
	if (at)
		printf(" (%.*s)", (int)strcspn(at + 3, "\n"), at + 3);
	printf("\n");
	fflush(stdout);
	return true;
}

static struct bpf_map *find_map(struct bpf_object *object, enum bpf_map_type type)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
		if (bpf_map__type(map) == type)
			return map;
	return NULL;
}

/* A second attempt for a program that was refused, with the verifier's words. */
static int explain(const char *path, int error)
{
	const char *what = "the kernel refuses the program";
	struct bpf_object *object;
	struct bpf_program *program;

	/* It may hold what was said of an earlier program. */
	*verifier_log = '\0';
	if (answer_of_module())
		return 1;
	/* libbpf guesses at other reasons. */
	if (error == EPERM) {
		*said_last = '\0';
		return answer_error(what, error);
	}
	object = bpf_object__open_file(path, NULL);
	if (!object)
		return answer_error(what, error);
	bpf_object__for_each_program(program, object) {
		bpf_program__set_log_buf(program, verifier_log, sizeof(verifier_log));
		bpf_program__set_log_level(program, 1);
	}
	if (bpf_object__load(object) && *verifier_log)
		print_log_end(path);
	if (!answer_of_verifier())
		answer_error(what, error);
	bpf_object__close(object);
	return 1;
}

static void print_costs(struct bpf_object *object)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, object) {
		struct bpf_prog_info info = {};
		uint32_t size = sizeof(info);

		if (bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &size))
			continue;
		printf(" %s=%u", bpf_program__name(program), info.verified_insns);
	}
}

/* libbpf takes the types of modules that it may not look for as missing ones. */
static bool may_find_types(void)
{
	uint32_t id;

	return !bpf_btf_get_next_id(0, &id) || errno != EPERM;
}

static struct bpf_object *load(const char *path)
{
	struct bpf_object *object;
	struct bpf_map *arena;
	int ret;

	*said_last = '\0';
	if (!may_find_types()) {
		answer_error("the kernel refuses the program", EPERM);
		return NULL;
	}
	object = bpf_object__open_file(path, NULL);
	lseek(kernel_log, 0, SEEK_END);
	if (!object) {
		answer_error("the object cannot be opened", errno);
		return NULL;
	}
	if (!find_map(object, BPF_MAP_TYPE_STRUCT_OPS)) {
		answer_error("the object holds no policy", EINVAL);
		goto err;
	}
	/* Schedulers need none. */
	arena = find_map(object, BPF_MAP_TYPE_ARENA);
	if (arena)
		bpf_map__set_map_extra(arena, ARENA_AT);
	ret = bpf_object__load(object);
	if (!ret)
		return object;
	explain(path, -ret);
err:
	bpf_object__close(object);
	return NULL;
}

static int replace(struct bpf_link *link, char *line)
{
	char path[4096];
	struct bpf_object *object;
	double start = now_s();
	int ret;

	if (sscanf(line, "replace %4095[^\n]", path) != 1)
		return answer_error("the line is not understood", EINVAL);
	object = load(path);
	if (!object)
		return 1;
	ret = bpf_link__update_map(link, find_map(object, BPF_MAP_TYPE_STRUCT_OPS));
	if (!ret)
		printf("ok replaced seconds=%.3f\n", now_s() - start);
	else if (!answer_of_module())
		answer_error("the program cannot be replaced", -ret);
	fflush(stdout);
	bpf_object__close(object);
	return !!ret;
}

static int attach_failed(int error)
{
	return answer_of_module() ? 1 : answer_error("the program cannot be attached", error);
}

static int attach(int count, char **words)
{
	double start = now_s();
	struct bpf_object *object = load(words[0]);
	struct bpf_link *link;
	char line[8192];
	int ret;

	if (!object)
		return 1;
	link = bpf_map__attach_struct_ops(find_map(object, BPF_MAP_TYPE_STRUCT_OPS));
	if (!link)
		return attach_failed(errno);
	if (count > 1) {
		ret = bpf_link__pin(link, words[1]);
		if (ret)
			return answer_error("the link cannot be pinned", -ret);
	}
	printf("ok attached seconds=%.3f", now_s() - start);
	print_costs(object);
	printf("\n");
	fflush(stdout);
	bpf_object__close(object);
	if (count > 1)
		return 0;
	while (fgets(line, sizeof(line), stdin))
		replace(link, line);
	return bpf_link__destroy(link) != 0;
}

/* The arena of the program that is attached: the last one that was made. */
static int find_arena(struct bpf_map_info *found)
{
	uint32_t id = 0;
	int last = -1;

	while (!bpf_map_get_next_id(id, &id)) {
		struct bpf_map_info info = {};
		uint32_t size = sizeof(info);
		int fd = bpf_map_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (bpf_map_get_info_by_fd(fd, &info, &size) || strcmp(info.name, "cil_arena")) {
			close(fd);
			continue;
		}
		if (last >= 0)
			close(last);
		last = fd;
		*found = info;
	}
	return last;
}

/* The types of the program that is attached: of the last one that was loaded. */
static struct btf *find_types(void)
{
	uint32_t id = 0, types = 0;

	while (!bpf_prog_get_next_id(id, &id)) {
		struct bpf_prog_info info = {};
		uint32_t size = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (!bpf_prog_get_info_by_fd(fd, &info, &size) && !strcmp(info.name, "cil_select"))
			types = info.btf_id;
		close(fd);
	}
	return types ? btf__load_from_kernel_by_id(types) : NULL;
}

static void print_text(void *context, const char *format, va_list args)
{
	(void)context;
	vprintf(format, args);
}

static const struct btf_type *find_states(struct btf *btf, uint32_t *offset)
{
	int section = btf__find_by_name_kind(btf, ".addr_space.1", BTF_KIND_DATASEC);
	const struct btf_type *type = section < 0 ? NULL : btf__type_by_id(btf, section);
	const struct btf_var_secinfo *var = type ? btf_var_secinfos(type) : NULL;
	int i;

	for (i = 0; type && i < btf_vlen(type); i++, var++) {
		const struct btf_type *t = btf__type_by_id(btf, var->type);

		if (strcmp(btf__name_by_offset(btf, t->name_off), "cil_states"))
			continue;
		*offset = var->offset;
		return btf__type_by_id(btf, t->type);
	}
	return NULL;
}

static void dump_states(struct btf *btf, const struct btf_type *array, const char *states)
{
	const struct btf_array *a = btf_array(array);
	struct btf_dump *dump = btf_dump__new(btf, print_text, NULL, NULL);
	LIBBPF_OPTS(btf_dump_type_data_opts, opts, .skip_names = false);
	long size = btf__resolve_size(btf, a->type);
	uint32_t i;

	for (i = 0; i < a->nelems && (long)i < 2 * sysconf(_SC_NPROCESSORS_CONF); i++) {
		printf("cpu%u %s\n", i / 2, i % 2 ? "shadow" : "active");
		btf_dump__dump_type_data(dump, a->type, states + i * size, size, &opts);
		printf("\n");
	}
	btf_dump__free(dump);
}

static int dump_arena(void)
{
	struct bpf_map_info info = {};
	int fd = find_arena(&info);
	const struct btf_type *array = NULL;
	struct btf *btf = NULL;
	uint32_t offset = 0;
	size_t size;
	char *arena;

	if (fd < 0)
		return answer_error("no program is attached", ENOENT);
	btf = find_types();
	if (btf)
		array = find_states(btf, &offset);
	if (!array)
		return answer_error("the program does not describe its state", ENOENT);
	size = (size_t)info.max_entries * sysconf(_SC_PAGESIZE);
	arena = mmap((void *)info.map_extra, size, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (arena == MAP_FAILED)
		return answer_error("the arena cannot be mapped", errno);
	dump_states(btf, array, arena + offset);
	btf__free(btf);
	return 0;
}

static int call(const char *path, const char *name)
{
	struct bpf_object *object = bpf_object__open_file(path, NULL);
	struct bpf_program *program;
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	int ret;

	if (!object)
		return answer_error("the object cannot be opened", errno);
	ret = bpf_object__load(object);
	if (ret)
		return explain(path, -ret);
	program = bpf_object__find_program_by_name(object, name);
	if (!program)
		return answer_error("the object has no such program", ENOENT);
	ret = bpf_prog_test_run_opts(bpf_program__fd(program), &opts);
	if (ret)
		return answer_error("the program cannot be run", -ret);
	printf("ok returned=%d\n", (int)opts.retval);
	return 0;
}

int main(int count, char **words)
{
	libbpf_set_print(remember_warning);
	kernel_log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if ((count == 3 || count == 4) && !strcmp(words[1], "attach"))
		return attach(count - 2, words + 2);
	if (count == 2 && !strcmp(words[1], "dump"))
		return dump_arena();
	if (count == 4 && !strcmp(words[1], "call"))
		return call(words[2], words[3]);
	fprintf(stderr, "usage: cil-bpf attach OBJECT [PIN] | dump | call OBJECT PROGRAM\n");
	return 2;
}

/*
 * The static libelf of Debian 13 refers to these, and its package lacks them.
 * Only elf_getdata_rawchunk() would call them, and libbpf does not use that.
 */
void eu_search_tree_init(void *tree)
{
	memset(tree, 0, 16);
}

void eu_search_tree_fini(void *tree, void *free_node)
{
	(void)tree, (void)free_node;
}

void *eu_tsearch(const void *key, void *tree, void *compare)
{
	(void)key, (void)tree, (void)compare;
	abort();
}

void *eu_tfind(const void *key, void *tree, void *compare)
{
	return eu_tsearch(key, tree, compare);
}

void *eu_tdelete(const void *key, void *tree, void *compare)
{
	return eu_tsearch(key, tree, compare);
}

void eu_tdestroy(void *tree, void *free_node)
{
	(void)tree, (void)free_node;
	abort();
}
