-- name: RetryRefused :one
-- Makes connectors of a type due again that other settings of this service have refused: a page of them.
SELECT r.retried::integer AS retried, r.next_reach::text AS next_reach, r.next_owner::integer AS next_owner, r.next_id::integer AS next_id
FROM moves.retry_by_owner(@type::text, @reach::text, @page::integer, @most::integer, @after_reach::text, @after_id::integer, @after_owner::integer) r;
