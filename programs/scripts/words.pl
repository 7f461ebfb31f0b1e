# Concordance of a corpus: counts, neighbours, lines by word, regular expressions over every line, sorted report.
use strict;
use warnings;

my (%count, %after, %lines, %titles, @reversed);
while (my $line = <STDIN>) {
    chomp $line;
    my ($title, $text) = split /\t/, $line, 2;
    $titles{$title} = length $text;
    my $previous = '';
    my @words = map { lc } $text =~ /(\w+)/g;
    for my $word (@words) {
        $count{$word}++;
        $after{$previous}{$word}++ if $previous ne '';
        push @{ $lines{$word} }, $. if length $word > 6;
        $previous = $word;
    }
    (my $changed = $text) =~ s/\b(\w)(\w*)\b/\U$1\E$2/g;
    push @reversed, join ' ', reverse split / /, $changed;
    shift @reversed if @reversed > 2000;
}

for my $word ((sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0 .. 39]) {
    my $next = $after{$word} || {};
    my @most = (sort { $next->{$b} <=> $next->{$a} || $a cmp $b } keys %$next);
    printf "%-16s %7d %5d %s\n", $word, $count{$word}, scalar @most, join ' ', grep { defined } @most[0 .. 2];
}
my ($longest) = sort { $titles{$b} <=> $titles{$a} || $a cmp $b } keys %titles;
my $places = 0;
$places += $_ * (1 + $places % 7) % 65_521 for map { @{ $lines{$_} } } sort keys %lines;
print "$longest\n$places\n", scalar(keys %lines), "\n", unpack('%32C*', join '', @reversed), "\n";
