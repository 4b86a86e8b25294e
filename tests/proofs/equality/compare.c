// SPDX-License-Identifier: GPL-2.0
/*
 * Drives one governor of the kernel and policies that claim to decide as it
 * does through the same stream of idle periods, and compares every answer.
 *
 *   compare MAINLINE SEED PERIODS POLICY[:TUNABLE=VALUE]...
 *
 * Lines of the output, "different" being the last if there is one:
 *   identical POLICY PERIODS
 *   count POLICY WHAT NUMBER
 *   different POLICY PERIOD
 *   (the rest: everything about that period, for people)
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "../../../tools/native/mainline/mainline.h"
#include "stream.h"

#define MAX_SUBJECTS	4
#define MAX_TUNABLES	32
#define HISTORY		12
/* CPU time in seconds after which a decision is taken to hang. */
#define PATIENCE	2
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* The compared part of a decision. */
struct answer {
	u32 index;
	bool stop_tick;
	bool asked;
};

struct subject {
	const struct cil_policy *policy;
	void *state;
	u32 tunables[MAX_TUNABLES];
	struct cil_query query;
	struct cil_decision decision;
	u64 reasons[256];
};

struct lived {
	struct period period;
	struct answer answer;
};

static const struct cil_policy *const policies[] = { POLICIES };

static const char *const reason_names[256] = {
#define X(id, number, text)	\
	[number] = text,
	CIL_REASONS(X)
#undef X
};

static const char *const fate_names[] = { "entered", "rejected", "aborted" };

static struct subject subjects[MAX_SUBJECTS];
static u32 subject_count;
static struct stream stream;
static struct lived history[HISTORY];
static bool rejected;
static u64 number;
static const char *asking;

/* Counts of the events in the stream. */
static struct {
	u64 enabled, left_behind, fates[3], tick_wakeups, poll_limits,
	    demotions, stopped_ticks, not_asked;
} seen;

/* The environment of the policies: the stream knows the timer. */
static const struct period *current;

void cil_env_sleep_length(struct cil_query *query)
{
	query->sleep_length_ns = current->query.sleep_length_ns;
	query->delta_tick_ns = current->query.delta_tick_ns;
}

/* Dumps are not under test here. */
void cil_env_print(struct cil_sink *sink, const char *format, ...)
{
	(void)sink;
	(void)format;
}

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

static u32 value_named(const struct cil_tunable *tunable, const char *text)
{
	char *end;
	u32 value;

	if (tunable->names) {
		for (value = 0; value <= tunable->max; value++) {
			if (!strcmp(tunable->names[value], text))
				return value;
		}
	}
	value = (u32)strtoul(text, &end, 0);
	if (*end || end == text || value < tunable->min || value > tunable->max)
		die("no such value of %s: %s", tunable->name, text);
	return value;
}

static void set_tunable(struct subject *subject, char *setting)
{
	const struct cil_policy *policy = subject->policy;
	char *value = strchr(setting, '=');
	u32 i;

	if (!value)
		die("not TUNABLE=VALUE: %s", setting);
	*value++ = '\0';
	for (i = 0; i < policy->tunable_count; i++) {
		if (!strcmp(policy->tunables[i].name, setting)) {
			subject->tunables[i] =
				value_named(&policy->tunables[i], value);
			return;
		}
	}
	die("%s has no tunable %s", policy->name, setting);
}

static void add_subject(char *argument)
{
	char *setting = strchr(argument, ':');
	struct subject *subject = &subjects[subject_count];
	u32 i;

	if (subject_count++ == MAX_SUBJECTS)
		die("too many policies");
	if (setting)
		*setting++ = '\0';
	for (i = 0; i < ARRAY_SIZE(policies); i++) {
		if (!strcmp(policies[i]->name, argument))
			subject->policy = policies[i];
	}
	if (!subject->policy || subject->policy->tunable_count > MAX_TUNABLES)
		die("no such policy: %s", argument);
	for (i = 0; i < subject->policy->tunable_count; i++)
		subject->tunables[i] = subject->policy->tunables[i].def;
	if (setting)
		set_tunable(subject, setting);
	subject->state = malloc(subject->policy->state_size);
	if (!subject->state)
		die("out of memory");
}

static void tell_outcome(const struct cil_outcome *outcome)
{
	u32 i;

	for (i = 0; i < subject_count; i++) {
		struct subject *s = &subjects[i];

		asking = s->policy->name;
		if (s->policy->update)
			s->policy->update(s->state, &stream.machine,
					  s->tunables, outcome);
	}
	asking = NULL;
}

static void enable_mainline(void)
{
	const struct cil_machine *machine = &stream.machine;
	struct mainline_state states[CIL_STATE_MAX];
	u32 i;

	for (i = 0; i < machine->state_count; i++)
		states[i] = (struct mainline_state){
			.exit_latency_ns = machine->states[i].exit_latency_ns,
			.target_residency_ns =
				machine->states[i].target_residency_ns,
			.polling = machine->states[i].polling,
		};
	mainline_enable(machine->tick_ns, machine->state_count, states);
}

static void enable(const struct period *p, bool learns_at_once)
{
	u32 i;

	seen.enabled++;
	enable_mainline();
	for (i = 0; i < subject_count; i++) {
		struct subject *s = &subjects[i];

		/* Initialisation must not rely on zeroed memory. */
		memset(s->state, 0xa5, s->policy->state_size);
		s->policy->init(s->state, &stream.machine, s->tunables);
	}

	rejected = true;
	if (!p->left_behind)
		return;

	/*
	 * The device remembers a period that the governor had no part in. TEO
	 * learns from it all the same; menu sees that it was not a rejection.
	 */
	seen.left_behind++;
	mainline_leave_behind(p->before.index, p->before.residency_ns,
			      p->before.poll_time_limit);
	if (learns_at_once)
		tell_outcome(&p->before);
	rejected = false;
}

static struct answer ask_mainline(const struct period *p)
{
	const struct mainline_inputs inputs = {
		.now_ns = p->query.now_ns,
		.latency_req_ns = p->query.latency_req_ns,
		.sleep_length_ns = p->query.sleep_length_ns,
		.delta_tick_ns = p->query.delta_tick_ns,
		.disabled = p->query.disabled,
		.tick_stopped = p->query.tick_stopped,
	};
	const struct mainline_answer answer = mainline_select(&inputs);

	return (struct answer){ (u32)answer.index, answer.stop_tick,
				answer.asked };
}

static struct answer ask_policy(struct subject *s, const struct period *p)
{
	s->query = p->query;
	s->query.rejected = rejected;
	/* An answer without a question must not be used. */
	s->query.sleep_length_ns = (s64)0xa5a5a5a5a5a5a5a5ULL;
	s->query.delta_tick_ns = (s64)0xa5a5a5a5a5a5a5a5ULL;
	memset(&s->decision, 0xa5, sizeof(s->decision));
	asking = s->policy->name;
	s->policy->select(s->state, &stream.machine, s->tunables, &s->query,
			  &s->decision);
	asking = NULL;
	s->reasons[s->decision.reason]++;
	return (struct answer){ s->decision.index, s->decision.stop_tick,
				s->query.asked };
}

static bool same(struct answer a, struct answer b)
{
	return a.index == b.index && a.stop_tick == b.stop_tick &&
	       a.asked == b.asked;
}

static void live(struct period *p, struct answer answer)
{
	const struct cil_decision decision = {
		.index = (u8)answer.index,
		.stop_tick = answer.stop_tick,
	};
	const struct cil_outcome *o = &p->outcome;

	stream_live(&stream, p, &decision);
	seen.fates[p->fate]++;
	seen.stopped_ticks += p->query.tick_stopped;
	seen.not_asked += !answer.asked;
	rejected = p->fate != FATE_ENTERED;
	if (rejected) {
		mainline_not_entered();
		return;
	}
	seen.demotions += o->index != answer.index;
	seen.tick_wakeups += o->tick_wakeup;
	seen.poll_limits += o->poll_time_limit;
	mainline_entered(o->index, o->residency_ns, o->tick_wakeup,
			 o->poll_time_limit);
	tell_outcome(o);
}

static void print_answer(const char *who, struct answer answer)
{
	printf("  %-10s index %u, %s the tick, timer %s\n", who, answer.index,
	       answer.stop_tick ? "may stop" : "keeps",
	       answer.asked ? "asked" : "not asked");
}

static void print_period(u64 number, const struct period *p)
{
	const struct cil_query *q = &p->query;

	if (p->enabled)
		printf("%llu: governor enabled%s\n", (unsigned long long)number,
		       p->left_behind ? ", the device left behind:" : "");
	if (p->left_behind)
		printf("  state %u, residency %lld ns%s\n", p->before.index,
		       (long long)p->before.residency_ns,
		       p->before.poll_time_limit ? ", poll limit" : "");
	printf("%llu: latency request %lld ns, disabled states 0x%x, tick %s\n"
	       "  sleep length %lld ns, next timer or tick %lld ns\n",
	       (unsigned long long)number, (long long)q->latency_req_ns,
	       q->disabled, q->tick_stopped ? "stopped" : "running",
	       (long long)q->sleep_length_ns, (long long)q->delta_tick_ns);
}

static void print_outcome(const struct lived *lived)
{
	const struct cil_outcome *o = &lived->period.outcome;

	print_answer("both", lived->answer);
	printf("  %s", fate_names[lived->period.fate]);
	if (lived->period.fate == FATE_ENTERED)
		printf(": state %u, residency %lld ns%s%s", o->index,
		       (long long)o->residency_ns,
		       o->tick_wakeup ? ", tick wake-up" : "",
		       o->poll_time_limit ? ", poll limit" : "");
	putchar('\n');
}

static void print_machine(void)
{
	const struct cil_machine *machine = &stream.machine;
	u32 i;

	printf("machine \"%s\", tick %lld ns\n", stream.machine_name,
	       (long long)machine->tick_ns);
	for (i = 0; i < machine->state_count; i++) {
		const struct cil_state *state = &machine->states[i];

		printf("  state %u: exit latency %lld ns, ", i,
		       (long long)state->exit_latency_ns);
		printf("target residency %lld ns%s\n",
		       (long long)state->target_residency_ns,
		       state->polling ? ", polling" : "");
	}
}

static void print_situation(const char *who)
{
	u64 i = number > HISTORY - 1 ? number - (HISTORY - 1) : 0;

	printf("different %s %llu\n", who, (unsigned long long)number);
	print_machine();
	printf("the periods before:\n");
	for (; i < number; i++) {
		const struct lived *lived = &history[i % HISTORY];

		print_period(i, &lived->period);
		print_outcome(lived);
	}
	printf("the difference:\n");
	print_period(number, current);
	printf("  no idle period before: %s\n", rejected ? "yes" : "no");
}

static void print_difference(const char *mainline, const struct subject *s,
			     struct answer theirs, struct answer ours)
{
	print_situation(s->policy->name);
	print_answer(mainline, theirs);
	print_answer(s->policy->name, ours);
	printf("  reason of %s: %s\n", s->policy->name,
	       reason_names[s->decision.reason] ?: "unknown number");
}

/* A governor hangs, not the C library, so printing is safe. */
static void check_progress(int signal)
{
	static u64 number_before = (u64)-1;

	(void)signal;
	if (number != number_before || !asking) {
		number_before = number;
		return;
	}
	print_situation(asking);
	printf("  %s has not answered for %d s of CPU time\n", asking,
	       PATIENCE);
	fflush(stdout);
	_exit(1);
}

static void watch_progress(void)
{
	const struct itimerval every = { { PATIENCE, 0 }, { PATIENCE, 0 } };

	signal(SIGVTALRM, check_progress);
	setitimer(ITIMER_VIRTUAL, &every, NULL);
}

static void count(const char *policy, const char *what, u64 number)
{
	printf("count %s %s %llu\n", policy, what, (unsigned long long)number);
}

static void print_counts(u64 periods)
{
	u32 i, reason;

	count("stream", "enabled", seen.enabled);
	count("stream", "enabled-with-a-past", seen.left_behind);
	for (i = 0; i < ARRAY_SIZE(fate_names); i++)
		count("stream", fate_names[i], seen.fates[i]);
	count("stream", "tick-wake-up", seen.tick_wakeups);
	count("stream", "poll-limit", seen.poll_limits);
	count("stream", "other-state-entered", seen.demotions);
	count("stream", "tick-stopped", seen.stopped_ticks);
	count("stream", "timer-not-asked", seen.not_asked);
	for (i = 0; i < subject_count; i++) {
		for (reason = 0; reason < 256; reason++) {
			if (subjects[i].reasons[reason])
				count(subjects[i].policy->name,
				      reason_names[reason] ?: "unknown-number",
				      subjects[i].reasons[reason]);
		}
		printf("identical %s %llu\n", subjects[i].policy->name,
		       (unsigned long long)periods);
	}
}

static bool run(const char *mainline, u64 periods)
{
	bool learns_at_once = !strcmp(mainline, "teo");
	u32 i;

	watch_progress();
	for (number = 0; number < periods; number++) {
		struct lived *lived = &history[number % HISTORY];
		struct period *p = &lived->period;
		struct answer answer;

		stream_next(&stream, p);
		current = p;
		if (p->enabled)
			enable(p, learns_at_once);
		asking = mainline;
		lived->answer = ask_mainline(p);
		asking = NULL;
		for (i = 0; i < subject_count; i++) {
			answer = ask_policy(&subjects[i], p);
			if (same(answer, lived->answer))
				continue;
			print_difference(mainline, &subjects[i],
					 lived->answer, answer);
			return false;
		}
		live(p, lived->answer);
	}
	print_counts(periods);
	return true;
}

int main(int argc, char **argv)
{
	int i;

	if (argc < 5)
		die("usage: compare MAINLINE SEED PERIODS POLICY...");
	if (!mainline_use(argv[1]))
		die("no governor %s is linked in", argv[1]);
	stream_init(&stream, strtoull(argv[2], NULL, 0));
	for (i = 4; i < argc; i++)
		add_subject(argv[i]);
	return run(argv[1], strtoull(argv[3], NULL, 0)) ? 0 : 1;
}
