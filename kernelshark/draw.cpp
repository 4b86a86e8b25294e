// SPDX-License-Identifier: GPL-2.0
/*
 * KernelShark plugin: draws the idle periods of each CPU.
 *
 * A period that reaches over two pixels has a bar of its own. The shorter ones share a bar, in the
 * colour of the state with the most time, so the number of shapes is bounded by the width of the
 * window. A red strip at the top of a bar marks too deep, a blue one at its foot too shallow.
 */
#include <algorithm>
#include <cstdio>
#include <string>

#include "KsPlugins.hpp"
#include "idle.h"

/* Of libkshark-gui, where there is one; KsPluginsGUI.hpp would need Qt. */
__attribute__((weak)) void markEntryA(void *window, const kshark_entry *entry);

namespace {

/* Shallow states are light, deep ones dark. */
const uint8_t colours[][3] = {
	{ 250, 225, 110 }, { 225, 220, 110 }, { 180, 210, 120 }, { 130, 195, 130 }, { 85, 175, 145 },
	{ 55, 150, 150 }, { 50, 120, 145 }, { 60, 90, 135 }, { 65, 60, 115 }, { 55, 35, 85 },
};
constexpr int n_colours = sizeof(colours) / sizeof(colours[0]);
const KsPlot::Color too_deep(220, 30, 30), too_shallow(20, 60, 230);

/* Height of a bar as a part of the graph's; of a mark and a line of text, in pixels. */
constexpr float bar_height = .7f;
constexpr int mark_height = 5;
constexpr int text_height = 18;

/* Meaning of a bar: one period, or all those between two pixels. */
struct Run {
	int first_bin, last_bin;
	bool is_crowd;
	const idle_period *period;	/* the first */
	size_t count, above, below, judged;
	int64_t time_ns[IDLE_STATES];

	int state() const
	{
		return std::max_element(time_ns, time_ns + IDLE_STATES) - time_ns;
	}

	idle_verdict verdict() const
	{
		if (2 * above > judged)
			return IDLE_ABOVE;
		return 2 * below > judged ? IDLE_BELOW : IDLE_RIGHT;
	}
};

struct {
	void *window;
	int stream = -1, cpu;
	int64_t ts;
	std::string text;
} chosen;

ksplot_font font;

std::string duration(double ns)
{
	char text[32];

	if (ns >= 1e9)
		snprintf(text, sizeof(text), ns < 1e12 ? "%.2f s" : "%.2g s", ns / 1e9);
	else if (ns >= 1e6)
		snprintf(text, sizeof(text), "%.2f ms", ns / 1e6);
	else
		snprintf(text, sizeof(text), "%.1f us", ns / 1e3);
	return text;
}

std::string name_of(int stream, int cpu, int state)
{
	char name[32];

	idle_state_name(idle_trace_of(stream), cpu, state, name, sizeof(name));
	return name;
}

std::string describe_decision(int stream, const kshark_entry *entry)
{
	idle_decision decision;

	if (!idle_decision_read(idle_trace_of(stream), entry, &decision))
		return "; its decision cannot be read";
	return std::string("; ") + decision.governor + ": " + decision.reason + ", sleep length " +
	       duration(decision.sleep_length_ns);
}

std::string describe_period(int stream, int cpu, const idle_period &period)
{
	std::string text = name_of(stream, cpu, period.state) + ", " +
			   duration(period.end_ns - period.start_ns);
	char loss[64];

	if (period.decision)
		text += describe_decision(stream, period.decision);
	if (period.verdict == IDLE_UNKNOWN)
		return text;
	if (period.verdict == IDLE_RIGHT)
		return text + "; no state would have cost less";
	snprintf(loss, sizeof(loss), ", loss %.1f %% over ", period.loss / 10.);
	return text + (period.verdict == IDLE_ABOVE ? "; too deep" : "; too shallow") + loss +
	       name_of(stream, cpu, period.best);
}

std::string describe_crowd(int stream, int cpu, const Run &run)
{
	std::string text = std::to_string(run.count) + " idle periods:";

	for (int k = 0; k < IDLE_STATES; k++)
		if (run.time_ns[k])
			text += " " + name_of(stream, cpu, k) + " " + duration(run.time_ns[k]);
	if (run.judged)
		text += "; " + std::to_string(run.above) + " too deep, " +
			std::to_string(run.below) + " too shallow";
	return text + "; zoom in for each";
}

class Bar : public KsPlot::Rectangle {
public:
	Bar(int stream, int cpu, const Run &run) : stream(stream), cpu(cpu), run(run) {}

	double distance(int x, int y) const override
	{
		int left = std::min(pointX(0), pointX(2)), right = std::max(pointX(0), pointX(2));
		int top = std::min(pointY(0), pointY(2)), bottom = std::max(pointY(0), pointY(2));
		int dx = std::max({ left - x, 0, x - right });
		int dy = std::max({ top - y, 0, y - bottom });

		return dx <= 2 && dy == 0 ? dx : 1e6;
	}

private:
	const int stream, cpu;
	const Run run;

	/* KernelShark draws again after its mark has moved; then the text is there. */
	void _doubleClick() const override
	{
		bool again = chosen.stream == stream && chosen.cpu == cpu &&
			     chosen.ts == run.period->start_ns;

		chosen.stream = again ? -1 : stream;
		chosen.cpu = cpu;
		chosen.ts = run.period->start_ns;
		chosen.text = run.count == 1 ? describe_period(stream, cpu, *run.period) :
					       describe_crowd(stream, cpu, run);
		if (markEntryA && chosen.window)
			markEntryA(chosen.window, run.period->decision ? run.period->decision :
									 run.period->entry);
	}
};

void set_box(KsPlot::Rectangle *box, int left, int right, int top, int bottom)
{
	box->setFill(true);
	box->setPoint(0, left, top);
	box->setPoint(1, left, bottom);
	box->setPoint(2, std::max(right, left + 1), bottom);
	box->setPoint(3, std::max(right, left + 1), top);
}

void add_mark(KsCppArgV *argv, const KsPlot::Color &colour, int left, int right, int top)
{
	KsPlot::Rectangle *mark = new KsPlot::Rectangle;

	set_box(mark, left, right, top, top + mark_height);
	mark->_color = colour;
	argv->_shapes->push_front(mark);
}

/* The deepest state of the machine is the darkest. */
const uint8_t *colour_of(int state, int deepest)
{
	return colours[std::min(state, deepest) * (n_colours - 1) / std::max(deepest, 1)];
}

void add_bar(KsCppArgV *argv, int stream, int cpu, const Run &run)
{
	const uint8_t *rgb = colour_of(run.state(), idle_deepest(idle_trace_of(stream)));
	int left = argv->_graph->bin(run.first_bin)._base.x();
	int right = argv->_graph->bin(run.last_bin)._base.x();
	int bottom = argv->_graph->base();
	int top = bottom - argv->_graph->height() * bar_height;
	Bar *bar = new Bar(stream, cpu, run);

	/* KernelShark draws the front of the list first. */
	if (run.verdict() == IDLE_ABOVE)
		add_mark(argv, too_deep, left, right, top);
	else if (run.verdict() == IDLE_BELOW)
		add_mark(argv, too_shallow, left, right, bottom - mark_height);
	set_box(bar, left, right, top, bottom);
	bar->_color = KsPlot::Color(rgb[0], rgb[1], rgb[2]);
	argv->_shapes->push_front(bar);
}

bool load_font()
{
	if (ksplot_font_is_loaded(&font))
		return true;
	char *file = ksplot_find_font_file("FreeSans", "FreeSans");
	bool loaded = file && ksplot_init_font(&font, text_height - 2, file);

	free(file);
	return loaded;
}

int bin_of(const kshark_trace_histo *histo, int64_t ts)
{
	int64_t bin = (ts - histo->min) / histo->bin_size;

	return std::clamp<int64_t>(bin, 0, histo->n_bins - 1);
}

void add_text(KsCppArgV *argv)
{
	const kshark_trace_histo *histo = argv->_histo;

	if (chosen.ts < histo->min || chosen.ts > histo->max || !load_font())
		return;
	int width = 7 * chosen.text.size();
	int last = argv->_graph->bin(histo->n_bins - 1)._base.x();
	int left = argv->_graph->bin(bin_of(histo, chosen.ts))._base.x();
	int bottom = argv->_graph->base() + text_height + 2;

	left = std::max(std::min(left, last - width), argv->_graph->bin(0)._base.x());
	argv->_shapes->push_front(new KsPlot::TextBox(&font, chosen.text,
						      KsPlot::Color(240, 240, 200),
						      KsPlot::Point(left, bottom), width,
						      text_height));
}

void add_period(Run &run, const idle_period &period)
{
	run.count++;
	run.above += period.verdict == IDLE_ABOVE;
	run.below += period.verdict == IDLE_BELOW;
	run.judged += period.verdict != IDLE_UNKNOWN;
	run.time_ns[period.state] += std::max<int64_t>(period.end_ns - period.start_ns, 1);
}

/* Gathers the periods of a CPU into runs and draws them. */
class Runs {
public:
	Runs(KsCppArgV *argv, int stream, int cpu) : argv(argv), stream(stream), cpu(cpu) {}

	~Runs()
	{
		settle();
		draw();
	}

	void add(const idle_period &period)
	{
		int first = bin_of(argv->_histo, period.start_ns);
		int last = bin_of(argv->_histo, period.end_ns);
		bool is_crowd = first == last;

		if (!(is_crowd && run.count && run.is_crowd && run.last_bin == first)) {
			settle();
			run = { first, last, is_crowd, &period, 0, 0, 0, 0, {} };
		}
		add_period(run, period);
	}

private:
	KsCppArgV *argv;
	const int stream, cpu;
	Run run = {}, before = {};

	void draw()
	{
		if (before.count)
			add_bar(argv, stream, cpu, before);
	}

	/* Crowds of neighbouring pixels with the same state are one bar. */
	void settle()
	{
		if (!run.count)
			return;
		if (before.count && before.is_crowd && run.is_crowd &&
		    run.first_bin == before.last_bin + 1 && run.state() == before.state() &&
		    run.verdict() == before.verdict()) {
			join();
		} else {
			draw();
			before = run;
		}
		run.count = 0;
	}

	void join()
	{
		before.last_bin = run.last_bin;
		before.count += run.count;
		before.above += run.above;
		before.below += run.below;
		before.judged += run.judged;
		for (int k = 0; k < IDLE_STATES; k++)
			before.time_ns[k] += run.time_ns[k];
	}
};

} // namespace

/**
 * idle_draw() - draw the idle periods of one CPU
 * @argv_c: what to draw on
 * @stream: the trace
 * @cpu: number of the CPU
 * @action: what KernelShark draws; anything but a CPU is left alone
 */
void idle_draw(struct kshark_cpp_argv *argv_c, int stream, int cpu, int action)
{
	KsCppArgV *argv = KS_ARGV_TO_CPP(argv_c);
	const idle_trace *trace = idle_trace_of(stream);
	const kshark_trace_histo *histo = argv->_histo;
	size_t count;

	if (!(action & KSHARK_CPU_DRAW) || !trace || histo->n_bins < 1 || histo->bin_size < 1 ||
	    argv->_graph->size() < histo->n_bins)
		return;
	const idle_period *first = idle_periods(trace, cpu, &count);
	const idle_period *end = first + count;

	if (chosen.stream == stream && chosen.cpu == cpu)
		add_text(argv);
	first = std::lower_bound(first, end, histo->min, [](const idle_period &period, int64_t ts) {
		return period.end_ns < ts;
	});
	Runs runs(argv, stream, cpu);
	for (; first < end && first->start_ns <= histo->max; first++)
		runs.add(*first);
}

/** idle_forget() - a trace goes: forget what was clicked */
void idle_forget(void)
{
	chosen.stream = -1;
}

/**
 * idle_set_window() - remember where marks are set
 * @window: KernelShark's main window
 *
 * Return: NULL.
 */
void *idle_set_window(void *window)
{
	chosen.window = window;
	return nullptr;
}
