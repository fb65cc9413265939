//! Tests of a segment's points: their number, and that they lead to every version.

use super::*;
use crate::embedded::codec::State;
use crate::embedded::log::frame::Frame;

const BUCKET: u64 = 7;

/// Makes a segment of versions as long as the compressed ones of real events. They are in frames of
/// one to three hundred versions.
fn segment(folder: &Path, handles: &Arc<Handles>) -> (Arc<Segment>, Revision) {
    let path = folder.join("segment.log");
    let segment = Segment::create(path, BUCKET, 1, handles).unwrap();
    let mut next = 1;
    for number in 1..120 {
        let mut frame = Frame::default();
        for _ in 0..[1, 3, 40, 300][number as usize % 4] {
            frame.push(BUCKET, Kind::Version, next, &content(next));
            next += 1;
        }
        let header = Header {
            number,
            first: 1,
            count: 1,
            parts: 1,
            state: State::default(),
        };
        let built = frame.build(BUCKET, &header);
        segment.append(&built, 0).unwrap();
        segment.publish(&built, number);
    }
    (Arc::new(segment), next - 1)
}

fn content(revision: Revision) -> Vec<u8> {
    vec![revision as u8; 200 + revision as usize * 37 % 150]
}

fn check(segment: &Arc<Segment>, last: Revision) {
    let mut scratch = Scratch::default();
    for revision in 1..=last {
        let found = segment.version(revision, &mut scratch).unwrap();
        assert_eq!(found, Some(&content(revision)[..]), "{revision}");
    }
    assert_eq!(segment.version(last + 1, &mut scratch).unwrap(), None);
}

/// There is one point for about four kilobytes, which a read takes at once.
#[test]
fn points_are_as_far_from_each_other_as_they_should_be() {
    let folder = tempfile::tempdir().unwrap();
    let (segment, last) = segment(folder.path(), &Handles::new(0));
    check(&segment, last);
    segment.rest();
    check(&segment, last);
    let known = segment.known.read().clone();
    let offsets: Vec<u64> = known.points.iter().map(|(_, at)| u64::from(*at)).collect();
    for pair in offsets.windows(2) {
        let distance = pair[1] - pair[0];
        assert!((APART..APART + 1024).contains(&distance), "{distance}");
    }
    assert!(known.len - offsets.last().unwrap() < APART + 1024);
    assert_eq!(known.points.capacity(), known.points.len());
}

/// Earlier versions of the program wrote eight times as many points.
#[test]
fn of_points_that_lie_close_some_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let handles = Handles::new(0);
    let (segment, last) = segment(folder.path(), &handles);
    let thin = segment.known.read().clone();
    let bytes = fs::read(&segment.path).unwrap();
    let mut dense = Known {
        points: Vec::new(),
        ..thin.clone()
    };
    let mut at = 0;
    while let Some((_, entries_at, len)) = frame::read_frame(&bytes[at..], BUCKET) {
        for (revision, offset) in index_frame(&bytes[at..at + len], entries_at).points {
            dense
                .points
                .push(((revision - 1) as u32, (at + offset) as u32));
        }
        at += len;
    }
    assert!(dense.points.len() > 8 * thin.points.len());
    *segment.known.write() = dense;
    let extent = segment.extent().unwrap();
    segment.write_idx(extent).unwrap();
    assert!(
        segment.extent().is_none(),
        "it is written down as far as it reaches"
    );
    let path = segment.path.clone();
    drop(segment);
    let number = Some(thin.number);
    let (opened, frames, tail) = Segment::open(path, BUCKET, 1, number, false, &handles).unwrap();
    assert!(frames.is_empty() && tail.is_none());
    let opened = Arc::new(opened);
    let points = opened.known.read().points.clone();
    let is_far = |pair: &[(u32, u32)]| u64::from(pair[1].1 - pair[0].1) >= APART;
    assert!(points.windows(2).all(is_far));
    check(&opened, last);
}
