#!/usr/bin/perl
# tap.pl COUNTS JOBS TEST... : runs test files that print TAP, as prove does, JOBS at a time.
#
# A TEST is a file, or "SUITE: NAME=VALUE... FILE": counted under another name than its folder's, and run with those
# variables. COUNTS gets a line "SUITE passed failed skipped seconds" for each suite (seconds: the sum of its files'),
# COUNTS.slow a line "seconds test" for each file.
#
# A skipped test is not a passed one. A file without a plan, with a wrong plan or with an exit status of its own is a
# failure even when each of its tests passed. A file that skips itself whole counts as one skipped.
use strict;
use warnings;
use File::Basename;
use TAP::Harness;

my ($counts, $jobs, @tests) = @ARGV;
die "tap.pl COUNTS JOBS TEST...\n" unless @tests;

# parts TEST: suite, file, variables
sub parts {
	my ($suite, $words) = $_[0] =~ /^(\S+): (.*)$/ ? ($1, $2) : (undef, $_[0]);
	my @words = defined $suite ? split(/ /, $words) : ($words);
	my $file = pop @words;
	return ($suite // basename(dirname($file)), $file, @words);
}

sub command {
	my (undef, $file, @variables) = parts($_[1]);
	return ['env', @variables, 'bash', $file];
}

my $harness = TAP::Harness->new({ exec => \&command, jobs => $jobs, failures => 1, comments => 1, timer => 1 });
my $all = $harness->runtests(map { my ($suite, $file) = parts($_); [$_, /: / ? "$suite $file" : $file] } @tests);
my (%of, @slow, @suites);
my $bad_files = 0;

my @descriptions = $all->descriptions;
my @parsers = $all->parsers(@descriptions);
for my $i (0 .. $#descriptions) {
	my ($parser, $name) = ($parsers[$i], $descriptions[$i]);
	my $suite = $name =~ /^(\S+) / ? $1 : basename(dirname($name));
	my $seconds = ($parser->end_time // 0) - ($parser->start_time // 0);
	my $skips = scalar $parser->skipped;
	my $bad = scalar $parser->failed;
	$bad ||= 1 if $parser->has_problems;
	$skips ||= 1 if defined $parser->skip_all;
	push @suites, $suite unless $of{$suite};
	my $sum = $of{$suite} //= [0, 0, 0, 0];
	$sum->[0] += scalar($parser->actual_passed) - scalar($parser->skipped);
	$sum->[1] += $bad;
	$sum->[2] += $skips;
	$sum->[3] += $seconds;
	push @slow, sprintf("%.0f %s\n", $seconds, $name);
	$bad_files++ if $bad;
}
sub put {
	my ($path, @lines) = @_;
	open my $out, '>', $path or die "$path: $!\n";
	print $out @lines;
	close $out or die "$path: $!\n";
}
put("$counts.slow", @slow);
put($counts, map { sprintf("%s %d %d %d %.0f\n", $_, @{ $of{$_} }) } @suites);
exit($bad_files ? 1 : 0);
