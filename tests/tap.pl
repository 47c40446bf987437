#!/usr/bin/perl
# tap.pl COUNTS JOBS FILE... : runs test files that print TAP, as prove does, and writes "passed failed skipped" into COUNTS.
# A skipped test is not a passed one. A file without a plan, with a wrong plan or with an exit status of its own is a
# failure even when each of its tests passed. A file that skips itself whole counts as one skipped.
use strict;
use warnings;
use TAP::Harness;

my ($counts, $jobs, @files) = @ARGV;
die "tap.pl COUNTS JOBS FILE...\n" unless @files;

my $harness = TAP::Harness->new({ exec => ['bash'], jobs => $jobs, failures => 1, comments => 1, timer => 1 });
my $all = $harness->runtests(@files);
my ($passed, $failed, $skipped) = (0, 0, 0);

for my $parser ($all->parsers) {
	my $skips = scalar $parser->skipped;
	my $bad = scalar $parser->failed;
	$bad ||= 1 if $parser->has_problems;
	$skips ||= 1 if defined $parser->skip_all;
	$passed += scalar($parser->actual_passed) - scalar($parser->skipped);
	$failed += $bad;
	$skipped += $skips;
}
open my $out, '>', $counts or die "$counts: $!\n";
print $out "$passed $failed $skipped\n";
close $out or die "$counts: $!\n";
exit($failed ? 1 : 0);
